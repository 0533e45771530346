"""Files that only claim to be large models are refused before they are read into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests import onnx_writer
from tests.coreml_writer import layer, model
from tests.tflite_writer import Net as Tflite

import vknn
from vknn.host_memory import peak_memory

WHOLE = model([layer("softmaxND", axis=-1)], {"x": (3,)}).SerializeToString()


#: The layers of a network, in a model that says it has 1.9 GB of them; those of an ONNX graph.
HUGE = 1_900_000_000


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def claimed(*numbers: int, size: int = HUGE) -> bytes:
    """The beginning of fields in one another, of which the innermost has ``size`` bytes."""
    found, inner = b"", size
    for number in reversed(numbers):
        head = varint(number << 3 | 2) + varint(inner)
        found, inner = head + found, inner + len(head)
    return found


#: Longer than what a format is recognized by.
ONNX = onnx_writer.simple(
    onnx_writer.node("Add", "x w"), w=np.zeros((2000, 1, 3), np.float32)
).SerializeToString()
NEWER = "which a Core ML model does not have"
HOLES = {
    "more than 2 GiB": ("net.mlmodel", WHOLE, 3 << 30, "more than a Core ML model has"),
    "behind": ("net.mlmodel", WHOLE, 15 << 27, f"byte {len(WHOLE)}: .*damaged or truncated"),
    "within": ("net.mlmodel", WHOLE[:40], 15 << 27, "damaged or truncated"),
    "layers": ("net.mlmodel", WHOLE + claimed(500), None, "damaged or truncated"),
    "a layer": ("net.mlmodel", WHOLE + claimed(500, 1), None, "damaged or truncated"),
    "a name": (
        "net.mlmodel",
        WHOLE + claimed(500, 1, 1),
        None,
        f"NeuralNetworkLayer.name .*{NEWER}",
    ),
    "a text": ("net.mlmodel", WHOLE + claimed(2, 100, 1), None, NEWER),
    "unknown": ("net.mlmodel", WHOLE + claimed(77), None, f"an unknown field 77 .*{NEWER}"),
    "a program": ("net.mlmodel", WHOLE + claimed(502), None, "mlProgram.*runs neural networks"),
    "trees": ("net.mlmodel", WHOLE + claimed(302), None, "treeEnsembleRegressor"),
    "onnx: more than 2 GiB": ("net.onnx", ONNX, 3 << 30, "larger than"),
    "onnx: behind": ("net.onnx", ONNX, 15 << 27, f"byte {len(ONNX)}: .*damaged or truncated"),
    "onnx: nodes": ("net.onnx", ONNX + claimed(7, 1), None, "damaged or truncated"),
    "onnx: a name": ("net.onnx", ONNX + claimed(7, 1, 3), None, "Node.name has"),
    "onnx: unknown": ("net.onnx", ONNX + claimed(77), None, "an unknown field 77"),
    "tflite": ("net.tflite", Tflite().file(), 15 << 27, None),
    "tflite: behind 8 bytes": ("net.tflite", Tflite().file()[:8], 15 << 27, "impossible sizes"),
    "openvino": ("net.xml", b"<net name='x' version='7'>", 15 << 27, "larger than"),
    "openvino: small": ("net.xml", b"<net name='x' version='7'>", 200 << 20, "well-formed XML"),
    "ncnn": ("net.param", b"7767517\n1 1\n", 15 << 27, "larger than"),
}


@pytest.mark.parametrize(("name", "begin", "size", "words"), HOLES.values(), ids=HOLES)
def test_holes_are_not_read(
    name: str, begin: bytes, size: int | None, words: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(len(begin) + HUGE if size is None else size)
    if path.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no holes")
    before = peak_memory()
    if words is None:
        vknn.Session(path, device="numpy").close()
    else:
        with pytest.raises(vknn.VknnError, match=rf"net\.\w+.*({words})"):
            vknn.Session(path, device="numpy")
    assert peak_memory() - before < 256 << 20


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (b"\x00", 0),  # a field 0
        (b"\x0b", 0),  # a group
        (b"\xff\x07", 0),  # of a wire type that there is not
        (b"\x80", 0),  # a tag that is cut
        (b"\xfa\x7c\x05abcd", 0),  # a value that is cut
        (b"\xd8\x7d\x07\xff", 3),  # an unknown field, and a tag that is cut
        (b"\x80" * 11, 0),  # a number without an end
    ],
)
def test_the_place_is_told(more: bytes, where: int, tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(WHOLE + more)
    with pytest.raises(vknn.ModelFormatError, match="damaged or truncated") as caught:
        vknn.Session(path, device="numpy")
    assert caught.value.offset == len(WHOLE) + where


@pytest.mark.parametrize("more", [b"", b"\xd8\x7d\x07", b"\xfa\x7c\x02ab", b"\xd9\x7d" + bytes(8)])
def test_unknown_fields_pass(more: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(WHOLE + more)
    vknn.Session(path, device="numpy").close()
