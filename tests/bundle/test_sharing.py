"""Nets of one context: equal weights and pipelines are on the device once, and only equal ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, records, section
from tests.bundle.networks import Made, made, small
from tests.bundle.sharing_nets import Nets
from tests.bundle.test_runner_sanitized import ADDRESS, THREAD, TSAN_OPTIONS, leaks
from tests.bundle.test_runner_sanitized import run as run_program
from tests.runtime.test_faults import LAYER
from tests.runtime.test_faults import layer as built_layer

from vknn.bundle.schema import HEADER, NONE
from vknn.errors import OutOfMemoryError
from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.device

ROOT = build.ROOT
SOURCE = Path(__file__).with_name("sharing.c")
#: CRC-32's polynomial, first bit first: bytes changed by it have the sum that they had.
SAME_SUM = (0x1DB710641).to_bytes(5, "little")


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


@pytest.fixture
def nets(library: Path) -> Iterator[Nets]:
    with Nets(library) as opened:
        yield opened


def data(case: Made) -> bytes:
    [array] = case.feeds.values()
    return array.tobytes()


def answer(case: Made) -> bytes:
    [array] = case.expected.values()
    return array.tobytes()


def weights(path: Path) -> list[int]:
    """The blobs that are weights, the largest first."""
    raw = path.read_bytes()
    used, sizes = records(raw, "buffer")["blob"], records(raw, "blob")["nbytes"]
    return sorted({int(b) for b in used[used != NONE]}, key=lambda b: -int(sizes[b]))


@pytest.mark.parametrize("staged", [False, True], ids=["in place", "staged"])
def test_bundle_twice(net: Made, nets: Nets, staged: bool) -> None:
    """The second takes its arenas alone, and is right when the first is closed."""
    first = nets.open(net.path, staged=staged)
    all_, there = nets.taken
    assert there == 0
    second = nets.open(net.path, staged=staged)
    arenas, shared = nets.taken
    assert arenas + shared == all_
    assert shared >= sum(int(records(net.path.read_bytes(), "blob")["nbytes"][b])
                         for b in weights(net.path))  # fmt: skip
    assert first.memory == second.memory >= all_
    for opened in (first, second):
        assert opened.run(data(net)) == answer(net)
    first.close()
    assert second.run(data(net)) == answer(net)
    third = nets.open(net.path, staged=not staged)
    assert nets.taken == (arenas, shared)
    assert third.run(data(net)) == answer(net)
    second.close()
    third.close()
    nets.open(net.path).close()
    assert nets.taken == (all_, 0)  # nothing was left


def test_limit_counts_what_is_taken_anew(net: Made, nets: Nets) -> None:
    first = nets.open(net.path)
    all_, _ = nets.taken
    nets.open(net.path).close()
    arenas, _ = nets.taken
    nets.open(net.path, memory_limit=arenas).close()
    with pytest.raises(OutOfMemoryError, match="close other nets"):
        nets.open(net.path, memory_limit=arenas - 1)
    assert first.run(data(net)) == answer(net)
    first.close()
    with pytest.raises(OutOfMemoryError, match="close other nets"):
        nets.open(net.path, memory_limit=all_ - 1)
    again = nets.open(net.path, memory_limit=all_)
    assert nets.taken == (all_, 0)
    assert again.run(data(net)) == answer(net)
    again.close()


def one_byte(body: bytearray) -> None:
    body[3] ^= 0x80  # a sign


def crafted(body: bytearray) -> None:
    for i, byte in enumerate(SAME_SUM):
        body[i] ^= byte


@pytest.mark.parametrize("change", [one_byte, crafted])
def test_other_weights_of_equal_size(
    net: Made, library: Path, nets: Nets, tmp_path: Path, change: Callable[[bytearray], None]
) -> None:
    """They are not shared, though their sums may be equal; the other weights are."""
    raw, blob = bytearray(net.path.read_bytes()), weights(net.path)[0]
    record = records(raw, "blob")[blob]
    start = section(raw, "data")[0] + int(record["offset"])
    body = raw[start : start + int(record["nbytes"])]
    before = zlib.crc32(body)
    change(body)
    assert (zlib.crc32(body) == before) is (change is crafted)
    raw[start : start + len(body)] = body
    (tmp_path / "raw.vkb").write_bytes(raw)

    def summed(blobs: np.ndarray) -> None:
        blobs["crc"][blob] = zlib.crc32(body)

    other = edited(tmp_path / "raw.vkb", tmp_path / "other.vkb", "blob", summed)
    with Nets(library) as alone:
        opened = alone.open(other)
        expected = opened.run(data(net))
        opened.close()
    assert expected != answer(net)
    first, second = nets.open(net.path), nets.open(other)
    new, there = nets.taken
    assert there > 0
    assert new >= len(body)
    assert first.run(data(net)) == answer(net)
    assert second.run(data(net)) == expected
    first.close()
    assert second.run(data(net)) == expected
    second.close()


def test_bundles_of_other_shapes(nets: Nets, tmp_path: Path) -> None:
    cases = []
    for size in (8, 12):
        folder = tmp_path / str(size)
        folder.mkdir()
        model = folder / "conv.param"
        model.write_text(
            "7767517\n2 2\nInput data 0 1 data\n"
            "Convolution conv 1 1 data y 0=16 1=1 5=1 6=128 9=1\n"
        )
        write_random_weights(model, model.with_suffix(".bin"))
        cases.append(made(folder, model, {"data": (8, size, size)}))
    opened = [nets.open(case.path) for case in cases]
    assert nets.taken[1] > 0
    for one, case in zip(opened, cases, strict=True):
        assert one.run(data(case)) == answer(case)
        one.close()


def test_pinned_bundles_share_among_themselves(net: Made, nets: Nets) -> None:
    """The bytes of those that are not may be changed while they are compared."""
    raw = bytearray(net.path.read_bytes())
    np.frombuffer(raw, HEADER.dtype, 1)["sha256"] = 0
    pin = hashlib.sha256(raw).digest()
    one = nets.open(net.path)
    all_, _ = nets.taken
    two = nets.open(net.path, sha256=pin)
    assert nets.taken == (all_, 0)
    three = nets.open(net.path, sha256=pin)
    assert nets.taken[1] > 0
    for opened in (one, two, three):
        assert opened.run(data(net)) == answer(net)
        opened.close()


def test_what_the_driver_holds(net: Made, library: Path, tmp_path: Path) -> None:
    """Memory and pipelines by a layer's count; a call that fails in one of two threads."""
    found = built_layer()
    if isinstance(found, str):
        pytest.skip(f"needs the layer of faults: {found}")
    np.save(tmp_path / "feed.npy", next(iter(net.feeds.values())))
    script = Path(__file__).with_name("sharing_nets.py")
    paths = [found / LAYER.library, library, net.path, tmp_path / "feed.npy"]
    done = subprocess.run(
        [sys.executable, str(script), *map(str, paths)], capture_output=True, text=True,
        check=False, timeout=120,
        env={
            **os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", "VK_LAYER_PATH": str(found),
            "VK_INSTANCE_LAYERS": LAYER.name, "VKNN_VALIDATE": "0",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    alive = json.loads(done.stdout)
    none, first, second = alive["context"], alive["first"], alive["second"]
    for kind, taken_again in (("memory", 3), ("buffer", 3), ("pipeline", 0), ("set_layout", 0)):
        before, one, two = (a.get(kind, 0) for a in (none, first, second))
        assert one - before > taken_again, kind
        assert two - one == taken_again, kind
    assert alive["first closed"] == first
    for step in ("both closed", "vkAllocateMemory", "vkCreateComputePipelines"):
        assert alive[step] == none, step
    assert not alive["end"]


def test_threads_without_races(net: Made) -> None:
    run_program(build.program(SOURCE, *THREAD), net.path, 3, TSAN_OPTIONS=TSAN_OPTIONS)


def test_threads_without_leaks(net: Made, tmp_path: Path) -> None:
    run_program(build.program(SOURCE, *ADDRESS), net.path, 3, **leaks(tmp_path))


def test_a_weight_without_a_place_is_shared_with_nobody(net: Made) -> None:
    """Memory of the host ends as a place is made for a weight that other nets may look for."""
    run_program(build.built("shelf", [SOURCE.with_name("shelf.c")], []), net.path)
