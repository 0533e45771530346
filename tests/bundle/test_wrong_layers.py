"""A bundle's own example finds a layer whose weights are wrong, and passes on a right device."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import onnx_writer
from tests.bundle import build
from tests.bundle.edits import edited, records, section
from tests.helpers import shared_device, skip_without_half
from tests.peers.ncnn.networks import NETWORKS, network_input, write_network
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.bundle import example
from vknn.bundle.reader import Bundle
from vknn.bundle.runner import Runner
from vknn.bundle.schema import BufferRole

pytestmark = pytest.mark.device
#: Of a run: slow drivers on busy machines.
SECONDS = 600
MODES = {"fp32": ("fp32", "fp32"), "fp16": ("fp16", "fp32"), "arithmetic": ("fp16", "fp16")}
BY_MODE = pytest.mark.parametrize("mode", MODES)
#: Bytes from which on the weights of a layer are changed: less are a bias, or a few scales.
LEAST = 64
#: Networks that take minutes.
LARGE = {"vision_transformer", "yolov4-tiny"}
#: With random weights their outputs are near a thousandth each, whatever comes in.
DULL = {"mobilenet_v3", "efficientnet_b0"}


def exported(model: Path, target: Path, mode: str, **options: Any) -> Path:
    precision, arithmetic = MODES[mode]
    if precision == "fp16":
        skip_without_half()
    limits = shared_device().limits
    vknn.export(
        model, target, targets=limits, precision=precision, arithmetic=arithmetic, **options
    )
    return target


def weights(path: Path, most: int) -> list[int]:
    """Blobs of weights, from the first layer's to the last one's; ``most`` of them."""
    raw = path.read_bytes()
    buffers, blobs = records(raw, "buffer"), records(raw, "blob")
    found = dict.fromkeys(buffers["blob"][buffers["role"] == BufferRole.WEIGHT].tolist())
    large = [number for number in found if blobs["nbytes"][number] >= LEAST]
    places = np.linspace(0, len(large) - 1, min(most, len(large)))
    return [large[int(place)] for place in places]


def without_weights(path: Path, folder: Path, most: int) -> Iterator[Path]:
    """Bundles of which one blob of weights each is zeros, with its sum right."""
    start, _ = section(path.read_bytes(), "data")
    for number in weights(path, most):

        def change(blobs: np.ndarray, number: int = number) -> None:
            blobs["crc"][number] = zlib.crc32(bytes(int(blobs["nbytes"][number])))

        target = edited(path, folder / f"without{number}.vkb", "blob", change)
        row = records(path.read_bytes(), "blob")[number]
        with target.open("r+b") as file:
            file.seek(start + int(row["offset"]))
            file.write(bytes(int(row["nbytes"])))
        yield target


def check(path: Path, folder: Path, most: int = 6, missed: int = 0) -> None:
    """Asserts that the example is right as it is, and of no bundle with wrong weights.

    ``missed``: how many of the ``most`` may be right nevertheless.
    """
    library = build.library()
    found = []
    with Runner(path, library=library, time_limit=SECONDS) as right:
        good, told = right.test()
        assert good, told
        for wrong in without_weights(path, folder, most):
            with Runner(wrong, beside=right, time_limit=SECONDS) as runner:
                good, told = runner.test()
            found.append("" if not good else f"{wrong.name}: {told}")
            wrong.unlink()
    assert found
    assert len([text for text in found if text]) <= missed, found


@BY_MODE
def test_small_model(tmp_path: Path, mode: str) -> None:
    path = exported(write_small_model(tmp_path), tmp_path / "net.vkb", mode, shapes={"data": SHAPE})
    check(path, tmp_path)


@BY_MODE
def test_voices(shared: Path, tmp_path: Path, mode: str) -> None:
    """A recurrent network of samples, with one output of one number."""
    shapes = {"input": (1, 576), "state": (2, 1, 128)}
    model = shared / "models" / "onnx" / "silero_vad.onnx"
    path = exported(model, tmp_path / "net.vkb", mode, shapes=shapes, fixed={"sr": 16000})
    check(path, tmp_path, most=99)
    examples = records(path.read_bytes(), "example")
    assert examples["absolute"].max() < 0.15  # of outputs of about 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@BY_MODE
def test_texts(shared: Path, tmp_path: Path, mode: str) -> None:
    """A network of letters, whose output are the probabilities of each."""
    model = shared / "models" / "onnx" / "ppocr_rec_en.onnx"
    path = exported(model, tmp_path / "net.vkb", mode, shapes={"x": (1, 3, 32, 272)})
    check(path, tmp_path, most=12)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("mode", ["fp32", "fp16"])
@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - LARGE))
def test_networks(shared: Path, tmp_path: Path, name: str, mode: str) -> None:
    """With random weights, whose means of all pixels hang little on a single layer: in 16 bits one
    that moves them by less than roundings in one direction do is missed."""
    if mode == "fp16" and name in DULL:
        pytest.skip("without a layer its outputs change by less than a float16 tells apart")
    model = write_network(shared, name, tmp_path)
    with vknn.Session(model, device="cpu") as session:
        [port] = session.inputs
    image = {port.name: network_input(name)}
    shapes = {port.name: NETWORKS[name]}
    path = exported(model, tmp_path / "net.vkb", mode, shapes=shapes, example=image)
    check(path, tmp_path, most=4, missed=0 if mode == "fp32" else 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@BY_MODE
def test_bytes(shared: Path, tmp_path: Path, mode: str) -> None:
    """A network of bytes: of noise it is unsure, which says little in 16 bits, of zeros sure."""
    model = shared / "models" / "onnx" / "magika_standard_v3_3.onnx"
    path = exported(model, tmp_path / "net.vkb", mode, shapes={"bytes": (1, 2048)})
    # An answer that is sure hangs little on a single layer.
    check(path, tmp_path, most=12, missed=0 if mode == "fp32" else 4)


def write_difference(folder: Path, *more: Any, **tensors: np.ndarray | np.generic) -> Path:
    """The difference of two numbers of 2^12: in 16 bits it is as large as their rounding.

    ``more``: nodes that make y of d, which is the difference.
    """
    nodes = [
        onnx_writer.node("Add", "x c", "sum"),
        onnx_writer.node("Relu", "sum", "big"),  # or else both constants become one bias
        onnx_writer.node("MatMul", "big one", "same"),
        onnx_writer.node("Sub", "same c", "d" if more else "y"),
        *more,
    ]
    constants = {
        "c": np.full((1, 64), 4096, np.float32), "one": np.eye(64, dtype=np.float32),
    }  # fmt: skip
    graph = onnx_writer.graph(
        nodes,
        [onnx_writer.value("x", (1, 64))],
        [onnx_writer.value("y", (1, 1 if more else 64))],
        constants | tensors,
    )
    return onnx_writer.save(onnx_writer.model(graph), folder)


def exported_with_warnings(model: Path, **options: Any) -> tuple[np.ndarray, list[str]]:
    """Input of a bundle's example, and what was told of output y."""
    path = model.with_name("net.vkb")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        vknn.export(model, path, targets="llvmpipe", **options)
    [given] = [e.array for e in Bundle.open(path).plans[0].examples if e.absolute == 0]
    return given, [str(w.message) for w in told if " of output 'y': " in str(w.message)]


def test_an_answer_that_anything_comes_near_to_is_told(tmp_path: Path) -> None:
    """Larger inputs say something, and so does fp32."""
    model = write_difference(tmp_path)
    for precision, size, count in ("fp16", 0.5, 1), ("fp16", 2000.0, 0), ("fp32", 0.5, 0):
        x = np.linspace(size / 2, size, 64, dtype=np.float32).reshape(1, 64)
        given, texts = exported_with_warnings(model, precision=precision, example={"x": x})
        np.testing.assert_array_equal(given, x)
        assert len(texts) == count
        assert all("or another precision than fp16" in text for text in texts)
    nothing = np.full((1, 64), np.nan, np.float32)
    _, [text] = exported_with_warnings(model, example={"x": nothing})
    assert "says nothing of output 'y': no number of it is finite" in text


def test_where_noise_says_little_larger_inputs_are_made_up(tmp_path: Path) -> None:
    model = write_difference(tmp_path)
    for precision, least, most in ("fp32", 0, 10), ("fp16", 100, 255):
        given, texts = exported_with_warnings(model, precision=precision)
        assert least < np.abs(given).max() < most and not texts


def test_larger_inputs_that_a_network_has_no_use_for_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = example.drawn

    def small_alone(graph: Any, feeds: Any, *rest: Any) -> Any:
        if feeds["x"].max() > 10:
            raise vknn.InputError("x: beyond the table")
        return drawn(graph, feeds, *rest)

    monkeypatch.setattr(example, "drawn", small_alone)
    given, texts = exported_with_warnings(write_difference(tmp_path), precision="fp16")
    assert np.abs(given).max() < 10 and len(texts) == 1


def test_an_output_that_nothing_is_compared_with_is_told(tmp_path: Path) -> None:
    """A root of a mean that roundings make negative; if none is given, larger inputs are taken."""
    model = write_difference(
        tmp_path,
        onnx_writer.node("ReduceMean", "d axes", "mean"),
        onnx_writer.node("Add", "mean half", "sum2"),
        onnx_writer.node("Sqrt", "sum2", "y"),
        axes=np.array([1], np.int64),
        half=np.float32(0.5),
    )
    x = np.linspace(-0.5, 0.5, 64, dtype=np.float32).reshape(1, 64)
    _, [text] = exported_with_warnings(model, precision="fp16", example={"x": x})
    assert "says nothing of output 'y': roundings " in text and "than fp16" in text
    assert not any(e.absolute for e in Bundle.open(tmp_path / "net.vkb").plans[0].examples)
    assert not exported_with_warnings(model, example={"x": x})[1]
    given, texts = exported_with_warnings(model, precision="fp16")
    assert given.max() > 100 and not texts
