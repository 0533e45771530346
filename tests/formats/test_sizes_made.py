"""Sizes that files and data ask for: more than memory has, and more than any tensor has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import coreml_writer, openvino_writer, tflite_writer
from tests.formats.tflite.test_sparsity import adding
from tests.onnx_writer import graph, model, node, save, tensor, value

import vknn
from vknn.formats.onnx import onnx_pb2 as pb

#: Bytes that a session may take, elements that take more, and that no tensor has.
LIMIT = 32 << 20
LARGE, IMPOSSIBLE = 3 << 28, 1 << 31
INT, FLOAT, INT32 = np.int64, np.float32, np.int32
Written = tuple[Path, Mapping[str, Any]]


def onnx(folder: Path, kind: str, *inputs: Any, **attributes: Any) -> Written:
    """A node of constants."""
    tensors = {f"c{number}": np.asarray(given) for number, given in enumerate(inputs)}
    body = [node(kind, " ".join(tensors), "y", **attributes)]
    return save(model(graph(body, [], [value("y", None)], tensors), 22), folder), {}


def of_a_matrix(folder: Path, kind: str, size: int) -> Written:
    """A node that makes a matrix of the size of its input, which takes no memory by itself."""
    body = [node("Expand", "x dims", "wide"), node(kind, "wide", "y")]
    tensors = {"dims": INT([1 << 14, size >> 14])}
    message = model(graph(body, [value("x", (1, 1))], [value("y", None)], tensors), 22)
    return save(message, folder), {"x": np.ones((1, 1), FLOAT)}


def openvino_range(folder: Path, size: int) -> Written:
    net = openvino_writer.Net()
    bounds = [net.const(np.array(number, FLOAT)) for number in (0, size, 1)]
    (made,) = net.layer("Range", bounds, [(5,)])
    net.layer("Eltwise", [net.input("x", (5,)), made], [(5,)], {"operation": "sum"})
    return net.save(folder), {"x": np.zeros(5, FLOAT)}


def prior_box(folder: Path, size: int) -> Written:
    """Boxes of many sizes for each of a million cells."""
    net, shape = openvino_writer.Net(), (1, 1, 1024, 1024)
    given = {"min_size": list(range(1, 1 + (size >> 22))), "img_size": 300, "offset": 0.5}
    net.layer("PriorBox", [net.input("cells", shape)], [(1, 2, 4)], given)
    return net.save(folder), {"cells": np.zeros(shape, FLOAT)}


def tflite(folder: Path, kind: str, options: Any, *inputs: Any) -> Written:
    """An operator of inputs that are fed."""
    net, feeds = tflite_writer.Net(), {}
    for number, given in enumerate(inputs):
        array = feeds[f"x{number}"] = np.asarray(given)
        net.inputs = [*net.inputs, net.tensor(f"x{number}", array.shape, array.dtype.name)]
    net.outputs = [net.tensor("y", (0,), inputs[-1].dtype.name)]
    net.add(kind, net.inputs, net.outputs, options)
    path = folder / "net.tflite"
    path.write_bytes(net.file())
    return path, feeds


def coreml(folder: Path, kind: str, **parameters: Any) -> Written:
    names = () if kind.endswith("Static") else ("x",)
    message = coreml_writer.model([coreml_writer.layer(kind, names, **parameters)], {"x": (2,)})
    path = folder / "net.mlmodel"
    path.write_bytes(message.SerializeToString())
    return path, {"x": np.zeros(2, FLOAT)}


CASES: dict[str, Callable[[Path, int], Written]] = {
    "Range": lambda f, n: onnx(f, "Range", INT(0), INT(n), INT(1)),
    "Range of floats": lambda f, n: onnx(f, "Range", FLOAT(0), FLOAT(n), FLOAT(1)),
    "HannWindow": lambda f, n: onnx(f, "HannWindow", INT(n)),
    "RandomNormal": lambda f, n: onnx(f, "RandomNormal", shape=[n]),
    "Multinomial": lambda f, n: onnx(f, "Multinomial", np.zeros((1, 3), FLOAT), sample_size=n),
    "OneHot": lambda f, n: onnx(f, "OneHot", INT([1]), INT(n), FLOAT([0, 1])),
    "Pad": lambda f, n: onnx(f, "Pad", np.zeros(1, np.int8), INT([0, n])),
    "EyeLike": lambda f, n: of_a_matrix(f, "EyeLike", n),
    "Trilu": lambda f, n: of_a_matrix(f, "Trilu", n),
    "Range of OpenVINO": openvino_range,
    "PriorBox": prior_box,
    "RANGE": lambda f, n: tflite(f, "RANGE", {}, FLOAT(0), FLOAT(n), FLOAT(1)),
    "ONE_HOT": lambda f, n: tflite(
        f, "ONE_HOT", {"axis": -1}, INT32([1]), INT32(n), FLOAT(1), FLOAT(0)
    ),
    "fillStatic": lambda f, n: coreml(f, "fillStatic", targetShape=[n], value=1.0),
    "rangeStatic": lambda f, n: coreml(f, "rangeStatic", endValue=n, stepSizeValue=1.0),
    "oneHot": lambda f, n: coreml(f, "oneHot", oneHotVectorSize=n, axis=-1, onValue=1.0),
}
#: Those that a file cannot make so large: an input comes first, or a number of its own type.
POSSIBLE = ("EyeLike", "Trilu", "PriorBox", "ONE_HOT", "oneHot")


@pytest.mark.parametrize("kind", CASES)
def test_more_than_memory(kind: str, tmp_path: Path) -> None:
    path, feeds = CASES[kind](tmp_path, LARGE)
    said = rf"layer .*\({kind.split()[0]}\): .*{LIMIT}"
    tracemalloc.start()
    try:
        with (
            vknn.Session(path, device="numpy", memory_limit=LIMIT) as session,
            pytest.raises(vknn.OutOfMemoryError, match=said),
        ):
            session.run(feeds)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind not in POSSIBLE])
def test_more_than_a_tensor_has(kind: str, tmp_path: Path) -> None:
    path, feeds = CASES[kind](tmp_path, IMPOSSIBLE)
    with (
        vknn.Session(path, device="numpy", memory_limit=LIMIT) as session,
        pytest.raises(vknn.ShapeError, match=rf"\({kind.split()[0]}\)"),
    ):
        session.run(feeds)


def test_sparse_tensors_that_become_dense(tmp_path: Path) -> None:
    """Both when the file is opened, before anything of that size is made."""
    entry = pb.SparseTensor(dims=[LARGE])
    entry.values.CopyFrom(tensor("w", FLOAT([5])))
    entry.indices.CopyFrom(tensor("", INT([7])))
    body = graph([node("Add", "x w")], [value("x", (1,))], [value("y", None)])
    body.sparse_initializer.append(entry)
    dense = tflite_writer.Table("DimensionMetadata", {"format": 0, "dense_size": LARGE})
    sparsity = {"traversal_order": [0], "block_map": [], "dim_metadata": [dense]}
    other = tmp_path / "net.tflite"
    made = adding((LARGE,), np.zeros(1, FLOAT), tflite_writer.Table("SparsityParameters", sparsity))
    other.write_bytes(made)
    for path, name in ((save(model(body), tmp_path), "'w'"), (other, "'c'")):
        with pytest.raises(vknn.OutOfMemoryError, match=f"{path.name}.*{name}.*{LIMIT}"):
            vknn.Session(path, device="numpy", memory_limit=LIMIT)
