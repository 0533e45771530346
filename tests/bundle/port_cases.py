"""Bundles whose ports differ, in types, layouts, labels, pictures, state; arrays for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests import onnx_writer
from tests.bundle.rebuilt import digits, with_labels
from tests.bundle.test_ports import quantized
from tests.bundle.test_ports_states import svdf
from tests.formats.coreml.test_images import image_output
from tests.onnx_writer import graph, node, value
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net as TfliteNet

import vknn
from vknn.bundle import Bundle
from vknn.graph import DType

RNG = np.random.default_rng(19)
CASES = ("small", "labels", "types", "state", "quantized", "picture", "sizes by data")


def labelled() -> bytes:
    return with_labels(Bundle.of(digits("generic", "llvmpipe")), [f"é{i}" for i in range(10)])


def nonzero() -> tuple[bytes, dict[str, Any]]:
    """How many rows it gives hangs on the data."""
    net = TfliteNet()
    x = net.tensor("x", (2, 7), "bool")
    y = net.tensor("y", (14, 2), "int64", shape_signature=[-1, 2])
    net.add("WHERE", [x], [y])
    net.inputs, net.outputs = [x], [y]
    return net.file(), {"x": RNG.random((2, 7)) > 0.5}


def types(folder: Path) -> Path:
    """Ports of six types."""
    nodes = [node("Greater", "x zero", "above"), node("And", "above mask", "y")]
    outputs = [value("y", (2, 3), DType.BOOL)]
    for name, (dtype, to) in {
        "b": (DType.UINT8, 2), "i": (DType.INT32, 6), "l": (DType.INT64, 7),
    }.items():  # fmt: skip
        nodes.append(node("Cast", "x", name, to=to))
        outputs.append(value(name, (2, 3), dtype))
    inputs = [value("x"), value("mask", (2, 3), DType.BOOL), value("idle", (5,), DType.UINT32)]
    zero = {"zero": np.float32(0)}
    return onnx_writer.save(onnx_writer.model(graph(nodes, inputs, outputs, zero)), folder)


def picture() -> bytes:
    return bytes(image_output("RGB", (3, 4, 5)).SerializeToString())


def case(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """A bundle, and an array for each of its inputs."""
    path, model, given = folder / "net.vkb", None, dict[str, Any]()
    if name == "labels":
        path.write_bytes(labelled())
    elif name == "small":
        model = write_small_model(folder)
    elif name == "sizes by data":
        model, given = nonzero()
    else:
        makers: dict[str, Any] = {"state": svdf, "quantized": quantized, "picture": picture}
        model = types(folder) if name == "types" else makers[name]()
    if model is not None:
        shapes = {"data": SHAPE} if name == "small" else None
        vknn.export(model, path, shapes=shapes, targets=("llvmpipe", "generic"), example=False)
    for port in Bundle.open(path).plans[0].inputs:
        numbers = given.get(port.name, 100 * RNG.standard_normal(port.shape))
        given[port.name] = np.abs(numbers) if port.dtype.kind in "ub" else numbers
        given[port.name] = np.reshape(given[port.name], port.shape).astype(port.dtype)
    return path, given
