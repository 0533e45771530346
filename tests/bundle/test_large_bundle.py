"""A bundle with more than 4 GiB of weights: where they lie in the file, and what they compute."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import section

import vknn
from vknn.bundle import schema
from vknn.bundle.reader import Bundle
from vknn.bundle.runner import Runner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

#: Each layer's weights are just below the 128 MiB that llvmpipe binds at most.
SIZE, LAYERS = 5792, 33
BYTES = LAYERS * SIZE * SIZE * 4
#: Of a run: slow drivers on busy machines.
SECONDS = 600


def weights(layer: int) -> np.ndarray:
    """A layer's own, [outputs, inputs], which neither grow nor shrink what comes in."""
    found = np.random.default_rng(layer).random((SIZE, SIZE), np.float32)
    found -= np.float32(0.5)
    found *= np.float32(np.sqrt(12 / SIZE))
    return found


def write_model(folder: Path) -> Path:
    """A row of layers that multiply with a matrix each, as ncnn writes them."""
    names = ["x", *(f"y{layer}" for layer in range(LAYERS))]
    lines = ["7767517", f"{LAYERS + 1} {LAYERS + 1}", "Input x 0 1 x"]
    with (folder / "large.bin").open("wb") as file:
        for layer, (source, target) in enumerate(itertools.pairwise(names)):
            sizes = f"0={SIZE} 1=0 2={SIZE * SIZE}"
            lines.append(f"InnerProduct {target} 1 1 {source} {target} {sizes}")
            file.write(bytes(4))  # float32
            file.write(weights(layer).data)
    path = folder / "large.param"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("large")
    path = folder / "large.vkb"
    try:
        model = write_model(folder)
        vknn.export(model, path, shapes={"x": (SIZE,)}, targets="llvmpipe", example=False)
        (folder / "large.bin").unlink()
        yield path
    finally:
        for file in folder.iterdir():  # pytest keeps folders of the last three runs
            file.unlink()


def test_weights_lie_beyond_32_bits(bundle: Path) -> None:
    blobs = Bundle.open(bundle).tables[schema.BLOB]
    assert int(blobs["offset"].max()) > 1 << 32
    assert int(blobs["nbytes"].sum()) >= BYTES > 1 << 32
    last = blobs[np.argmax(blobs["offset"])]
    with bundle.open("rb") as file:
        file.seek(section(file.read(4096), "data")[0] + int(last["offset"]))
        found = file.read(int(last["nbytes"]))
    assert zlib.crc32(found) == last["crc"]


@pytest.mark.device
def test_too_little_memory_is_told(bundle: Path) -> None:
    with pytest.raises(vknn.OutOfMemoryError) as told:
        Runner(bundle, library=build.library(), memory_limit=1 << 32)
    needs, free = numbers(str(told.value))
    assert needs > free == 1 << 32


def numbers(message: str) -> tuple[int, int]:
    """Bytes that the net takes, and those that are free, of the runner's message."""
    found = re.search(
        r"the net takes (\d+) bytes of device memory or more, and (\d+) are free on .*; close "
        r"other nets, or take a bundle of smaller shapes or fp16",
        message,
    )
    assert found, message
    return int(found[1]), int(found[2])


@pytest.mark.device
def test_answers_are_those_of_numpy(bundle: Path) -> None:
    x = np.random.default_rng(99).standard_normal(SIZE).astype(np.float32)
    try:
        runner = Runner(bundle, library=build.library(), time_limit=SECONDS)
    except vknn.OutOfMemoryError as error:
        needs, free = numbers(str(error))
        assert needs > free
        pytest.skip(f"the driver has {free} bytes of memory: tools/test --driver lavapipe has more")
    with runner:
        assert runner.memory > BYTES
        [found] = runner.run({"x": x}).values()
    expected = x.astype(np.float64)
    for layer in range(LAYERS):
        expected = weights(layer) @ expected
    # Roundings of float32 in sums of thousands, layer after layer; another layer's weights make
    # numbers as large as these.
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
