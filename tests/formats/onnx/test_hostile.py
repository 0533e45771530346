"""Files and calls that are made to do harm: one clear error, soon, and nothing large allocated."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.onnx_writer import attribute, graph, model, node, save, simple, tensor, value

from vknn import Session
from vknn.errors import (
    InputError,
    ModelFormatError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedLayerError,
    VknnError,
)
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)
RIGHT = (InputError, ModelFormatError, OutOfMemoryError, ShapeError, UnsupportedLayerError)
BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
EMPTY = np.zeros((0, 3), np.float32)
TERA, LAST, FIRST = 1 << 40, (1 << 63) - 1, -(1 << 63)


@contextmanager
def modest(seconds: float = 5.0, megabytes: int = 64) -> Iterator[None]:
    """A block that takes neither long nor much memory."""
    start = time.process_time()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < seconds
    assert peak < megabytes << 20


def refusal(message: Any, feeds: Any, folder: Path, device: Any = "numpy") -> VknnError:
    """The error of a model, which has to be one of those that say whose fault it is."""
    path = save(message, folder)
    with modest(), pytest.raises(RIGHT) as caught, Session(path, device=device) as session:
        session.run(feeds)
    error = caught.value
    crude = (IndexError, KeyError, ValueError, OverflowError, TypeError, AttributeError)
    assert type(error.__cause__) not in crude, error
    return error


def numbers(*given: int) -> np.ndarray:
    return np.asarray(given, np.int64)


SIZES = [
    (node("Reshape", "x s"), EMPTY, numbers(0, LAST)),
    (node("Reshape", "x s", allowzero=1), EMPTY, numbers(0, 1 << 62)),
    (node("Reshape", "x s"), X, numbers(TERA, -1)),
    (node("Reshape", "x s"), X, numbers(1 << 62, 4, 1)),
    (node("Expand", "x s"), X, numbers(TERA, 2, 3)),
    (node("Expand", "x s"), EMPTY, numbers(LAST, 0, 3)),
    (node("Tile", "x s"), X, numbers(TERA, TERA)),
    (node("Tile", "x s"), EMPTY, numbers(1, LAST)),
    (node("ConstantOfShape", "s"), X, numbers(TERA)),
    (node("ConstantOfShape", "s"), X, numbers(LAST, 0, LAST)),
    (node("Pad", "x s"), X, numbers(TERA, 0, 0, 0)),
    (node("Pad", "x s", mode="edge"), X, numbers(0, 0, LAST, 0)),
    (node("Pad", "x s", mode="reflect"), X, numbers(0, 0, 0, 1 << 31)),
    (node("Gather", "x s"), X, numbers(LAST)),
    (node("Gather", "x s"), X, numbers(FIRST)),
    (node("GatherND", "x s"), X, numbers(0, TERA).reshape(1, 2)),
    (node("GatherElements", "x s"), X, numbers(3).reshape(1, 1)),
    (node("Squeeze", "x s"), X, numbers(LAST)),
    (node("Unsqueeze", "x s"), X, numbers(FIRST)),
    (node("ReduceSum", "x s"), X, numbers(TERA)),
    (node("Split", "x s", "y z"), X, numbers(LAST, 2)),
    (node("TopK", "x s", "y z"), X, numbers(TERA)),
    (node("Resize", "x - - s", mode="linear"), X, numbers(TERA, 3)),
    (node("Resize", "x - - s", mode="nearest"), X, numbers(1 << 28, 3)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "data"])
@pytest.mark.parametrize(
    ("made", "x", "s"), SIZES, ids=[f"{n.op_type}-{s.ravel()[0]}" for n, _, s in SIZES]
)
def test_sizes_and_indices(
    made: Any, x: np.ndarray, s: np.ndarray, constant: bool, backend: str, tmp_path: Path
) -> None:
    inputs = [value("x", x.shape)] + ([] if constant else [value("s", s.shape, DType.INT64)])
    tensors = {"s": s} if constant else {}
    message = model(graph([made], inputs, [value(o, None) for o in made.output], tensors))
    feeds = {"x": x} if constant else {"x": x, "s": s}
    device = "numpy" if backend == "numpy" else shared_device()
    refusal(message, feeds, tmp_path, device)


ATTRIBUTES = [
    node("Softmax", "x", axis=LAST), node("Flatten", "x", axis=FIRST),
    node("Concat", "x x", axis=TERA), node("Transpose", "x", perm=[LAST, 0]),
    node("ArgMax", "x", axis=1 << 31), node("LayerNormalization", "x w", axis=LAST),
    node("MaxPool", "i", kernel_shape=[LAST, 1]), node("AveragePool", "i", kernel_shape=[0, 1]),
    node("MaxPool", "i", kernel_shape=[2, 2], strides=[0, 1]),
    node("MaxPool", "i", kernel_shape=[2, 2], pads=[TERA] * 4),
    node("Conv", "i k", dilations=[LAST, 1]), node("Conv", "i k", group=LAST),
    node("Conv", "i k", group=0), node("Conv", "i k", pads=[TERA, 0, 0, 0]),
    node("ConvTranspose", "i k", strides=[TERA, 1]), node("DepthToSpace", "i", blocksize=TERA),
    node("SpaceToDepth", "i", blocksize=0), node("LRN", "i", size=0),
    node("GroupNormalization", "w w w", num_groups=1), node("GRU", "x w w"),
    node("LSTM", "c k3 k3 - - x"), node("Constant", ""),
    node("Constant", "", value_ints=[1], value_int=2), node("Range", "w w w"),
]  # fmt: skip


@pytest.mark.parametrize(
    "made", ATTRIBUTES, ids=[f"{n.op_type}{i}" for i, n in enumerate(ATTRIBUTES)]
)
def test_attributes(made: Any, tmp_path: Path) -> None:
    tensors = {"w": X[0], "i": X[None, None], "k": np.ones((1, 1, 2, 2), np.float32),
               "k3": np.ones((1, 8, 2), np.float32), "c": X[None]}  # fmt: skip
    refusal(simple(made, **tensors), {"x": X}, tmp_path)


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [("Relu", "x"), ("Add", "x x"), ("MatMul", "x x"), ("TopK", "x x"), ("Cast", "x"),
     ("Range", "x x x"), ("Resize", "x - - x"), ("CumSum", "x x")],
)  # fmt: skip
def test_complex_numbers(operator: str, inputs: str, tmp_path: Path) -> None:
    made = node(operator, inputs, "y z" if operator == "TopK" else "y")
    if operator == "Cast":
        made.attribute.append(attribute("to", 1))
    message = model(graph([made], [value("x", (1,), DType.COMPLEX64)], [value("y", None)]))
    error = refusal(message, {"x": np.ones(1, np.complex64)}, tmp_path)
    assert "complex" in str(error)


def test_element_types_that_do_not_fit(tmp_path: Path) -> None:
    """What the file says of its outputs is a hint; what operators take is none."""
    f32 = DType.FLOAT32
    for name, one, two in (("Add", f32, DType.INT64), ("And", DType.BOOL, f32),
                           ("MatMul", f32, DType.FLOAT16), ("Add", DType.STRING, DType.STRING),
                           ("Where", f32, f32)):  # fmt: skip
        inputs = [value("a", (2, 2), one), value("b", (2, 2), two)]
        made = node(name, "a a b" if name == "Where" else "a b")
        feeds = {v.name: np.full((2, 2), b"1" if t is DType.STRING else 1, t.numpy)
                 for v, t in zip(inputs, (one, two), strict=True)}  # fmt: skip
        refusal(model(graph([made], inputs, [value("y", None)])), feeds, tmp_path)


def _call(name: str, *inner: Any, inputs: str = "x", outputs: str = "y") -> Any:
    made = pb.Function(name=name, domain="own", input=inputs.split(), output=outputs.split())
    made.node.extend(inner)
    for domain, version in (("", 21), ("own", 1)):
        made.opset_import.add(domain=domain, version=version)
    return made


def _model_of(functions: Any, first: str = "F0") -> Any:
    return model(graph([node(first, "x", domain="own")], [value("x")], [value("y", None)]),
                 functions=functions)  # fmt: skip


def test_functions_that_grow_inside_of_subgraphs(tmp_path: Path) -> None:
    """Each function calls the next in both branches of an If, thirty times over."""
    functions = []
    for number in range(30):
        inner = [
            graph([node(f"F{number + 1}", "x", f"b{side}", "own")], [], [value(f"b{side}", None)])
            for side in range(2)
        ]
        functions.append(_call(
            f"F{number}", node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=9),
            node("If", "c", then_branch=inner[0], else_branch=inner[1]),
        ))  # fmt: skip
    functions.append(_call("F30", node("Relu", "x")))
    assert "more than 200000 nodes" in str(refusal(_model_of(functions), {"x": X}, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("count", [60, 5000])
def test_long_chains_of_functions(count: int, tmp_path: Path) -> None:
    """Functions that each call the next one, the last of them standing first in the file."""
    functions = [
        _call(f"F{number}", node(f"F{number + 1}", "x", domain="own")) for number in range(count)
    ]
    functions.append(_call(f"F{count}", node("Neg", "x")))
    message = _model_of(functions[::-1])
    if count < 100:
        with Session(save(message, tmp_path), device="numpy") as session:
            assert np.array_equal(session.run({"x": X})["y"], -X)
    else:
        assert "deep" in str(refusal(message, {"x": X}, tmp_path))


def test_loops_inside_of_loops(tmp_path: Path) -> None:
    """A million million rounds that do nothing, in the time that a run may take."""
    body = graph([node("Identity", "c", "d"), node("Identity", "v", "w")],
                 [value("i", (), DType.INT64), value("c", (), DType.BOOL), value("v")],
                 [value("d", (), DType.BOOL), value("w")])  # fmt: skip
    for _ in range(4):
        body = graph([node("Loop", "M - v", "w", body=body), node("Identity", "c", "d")],
                     [value("i", (), DType.INT64), value("c", (), DType.BOOL), value("v")],
                     [value("d", (), DType.BOOL), value("w")])  # fmt: skip
    message = simple(node("Loop", "M - x", body=body), M=np.int64(1000))
    with (
        modest(),
        Session(save(message, tmp_path), device="numpy") as session,
        pytest.raises(VknnError, match="not done within"),
    ):
        session.run({"x": X}, timeout=1)


def _external(location: str, **entries: str) -> Any:
    message = simple(node("Add", "x w"))
    found = message.graph.initializer.add(name="w", dims=[2, 3], data_type=1, data_location=1)
    for key, text in {"location": location, **entries}.items():
        found.external_data.add(key=key.encode(), value=os.fsencode(text))
    return message


def test_external_data_elsewhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "model", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "w").write_bytes(X.tobytes())
    (inside / "link").symlink_to(outside / "w")
    (inside / "folder").symlink_to(outside)
    (inside / "null").symlink_to("/dev/zero")
    (inside / "circle").symlink_to("circle")
    os.mkfifo(inside / "pipe")
    (inside / "here").mkdir()
    for location in (
        "link", "folder/w", "null", "circle", "pipe", "here", "../outside/w", "a/../../outside/w",
        str(outside / "w"), "/dev/zero", "\\\\host\\w", "C:\\w", "C:/w", "", "a\0b", ".", "..",
        "x" * 5000, "link/w", "file:///etc/passwd",
    ):  # fmt: skip
        text = str(refusal(_external(location), {"x": X}, inside))
        assert text.count("external data") == 1, text


def test_odd_names_of_external_data(tmp_path: Path) -> None:
    for name in ("ä ö.bin", "a\nb", "-rf", "%s{0}", "w.onnx.data", "\udce4"):
        (tmp_path / name).write_bytes(X.tobytes())
        with Session(save(_external(name), tmp_path), device="numpy") as session:
            assert np.array_equal(session.run({"x": X})["y"], X + X)


@pytest.mark.parametrize(
    "entries",
    [{"offset": "24"}, {"offset": str(LAST)}, {"length": str(1 << 64)}, {"length": "-1"},
     {"offset": "1", "length": "24"}, {"length": "23"}, {"offset": "0x0"}, {"offset": "١"},
     {"offset": " 0"}, {"length": "1e1"}],
)  # fmt: skip
def test_ranges_beyond_a_file(entries: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(X.tobytes())
    refusal(_external("w", **entries), {"x": X}, tmp_path)


def test_declared_sizes_without_data(tmp_path: Path) -> None:
    for dims in ([TERA], [LAST, LAST], [1 << 32, 1 << 32], [-1], [1] * 3000, [0, LAST, LAST]):
        message = simple(node("Add", "x w"))
        message.graph.initializer.add(name="w", dims=dims, data_type=1)
        refusal(message, {"x": X}, tmp_path)
    message = simple(node("Add", "x w"))
    sparse = message.graph.sparse_initializer.add(dims=[1 << 31, 1 << 31])
    sparse.values.CopyFrom(tensor("w", np.ones(1, np.float32)))
    sparse.indices.CopyFrom(tensor("", numbers(0)))
    refusal(message, {"x": X}, tmp_path)


def test_odd_names_of_values_run(tmp_path: Path) -> None:
    for name in ("a/b", "x\ny", "💡", " ", "'", "x" * 10_000, "value:0", "argument:0", "%1", "\0"):
        body = graph([node("Add", "x x"), node("Relu", "y")], [value("x")], [value(name, None)])
        body.node[0].output[0] = "t"
        body.node[1].input[0], body.node[1].output[0] = "t", name
        with Session(save(model(body), tmp_path), device="numpy") as session:
            assert np.array_equal(session.run({"x": X})[name], X + X)
