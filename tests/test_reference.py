"""Running graphs with NumPy."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from vknn import reference
from vknn.errors import InputError, OutOfMemoryError, ShapeError, VknnError
from vknn.graph import Graph, GraphBuilder, Node, Op, Origin, TensorType
from vknn.ops.elementwise import Add, Mul, Neg, Relu
from vknn.ops.matmul import MatMul


def small() -> Graph:
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    w = g.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = g.add(MatMul(), x, w, None)
    z = g.add(Relu(), g.add(Neg(), y))
    return g.finish({"z": z, "y": y, "again": y, "x": x, "w": w})


X = np.array([[1, -2, 3], [0, 1, -1]], np.float32)


@pytest.mark.parametrize("free", [True, False])
def test_outputs_by_name(free: bool) -> None:
    graph = small()
    outputs = reference.run(graph, {"x": X}, free=free)
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert list(outputs) == ["z", "y", "again", "x", "w"]
    np.testing.assert_array_equal(outputs["y"], X @ w)
    np.testing.assert_array_equal(outputs["again"], X @ w)
    np.testing.assert_array_equal(outputs["z"], np.maximum(-(X @ w), 0))
    np.testing.assert_array_equal(outputs["x"], X)
    np.testing.assert_array_equal(outputs["w"], w)


def test_observe_sees_every_node_in_order() -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []

    def observe(node: Node, results: tuple[np.ndarray, ...]) -> None:
        seen.append((node.op.type_name, results[0].shape))

    reference.run(small(), {"x": X}, observe=observe)
    assert seen == [("MatMul", (2, 4)), ("Neg", (2, 4)), ("Relu", (2, 4))]


@pytest.mark.parametrize("free", [True, False])
def test_results_are_let_go_when_nothing_reads_them_any_more(free: bool) -> None:
    g = GraphBuilder()
    value = g.input("x", TensorType((3,)))
    for _ in range(4):
        value = g.add(Neg(), value)
    results: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    def observe(node: Node, arrays: tuple[np.ndarray, ...]) -> None:
        results.append(weakref.ref(arrays[0]))
        alive.append(sum(r() is not None for r in results))

    reference.run(g.finish({"y": value}), {"x": X[0]}, observe=observe, free=free)
    assert alive == ([1, 2, 2, 2] if free else [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "input 'x' is missing"),
        ({"x": X, "y": X}, "no input is called 'y'"),
        ({"X": X}, r"no input is called 'X'; input 'x' is missing \(inputs: 'x'\)"),
        ({"x": X.T}, r"input 'x' is float32\[3, 2\], not float32\[2, 3\]"),
        ({"x": X[0]}, "float32"),
        ({"x": X.astype(np.float64)}, "float64"),
        ({"x": X.astype(np.uint32)}, "uint32"),
    ],
)
def test_unfit_feeds(feeds: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words):
        reference.run(small(), feeds)


@dataclass(frozen=True)
class _Broken(Op):
    """Infers its input's type and does something else."""

    kind: str

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        assert inputs[0] is not None
        return (inputs[0],)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = inputs
        assert x is not None
        if self.kind == "raises":
            raise ValueError("no such luck")
        if self.kind == "shape error":
            raise ShapeError("bad shape")
        if self.kind == "memory":
            raise MemoryError("8 EiB")
        if self.kind == "shape":
            return (x[:1],)
        return (x, x) if self.kind == "two" else (x.astype(np.float64),)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("raises", VknnError, "no such luck"),
        ("shape error", ShapeError, "bad shape"),
        ("memory", OutOfMemoryError, "8 EiB"),
        ("shape", ShapeError, r"came out as float32\[1, 3\] instead of float32\[2, 3\]"),
        ("dtype", ShapeError, r"came out as float64\[2, 3\]"),
        ("two", ShapeError, "gave 2 results instead of 1"),
    ],
)
def test_errors_name_the_layer(kind: str, error: type[Exception], words: str) -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    y = g.add(_Broken(kind), x, origin=Origin("conv7", "Convolution"))
    with pytest.raises(error, match=rf"layer 'conv7' \(Convolution\): .*{words}"):
        reference.run(g.finish({"y": y}), {"x": X})


def test_nodes_out_of_order_are_refused() -> None:
    graph = small()
    broken = Graph(graph.inputs, graph.outputs, graph.nodes[::-1])
    with pytest.raises(ShapeError, match="before anything makes it"):
        reference.run(broken, {"x": X})
    empty = Graph(graph.inputs, graph.outputs, [])
    with pytest.raises(ShapeError, match="nothing makes output 'z'"):
        reference.run(empty, {"x": X})


def test_a_value_read_twice_and_a_scalar() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType(()))
    y = g.add(Mul(), g.add(Add(), x, x), x)
    outputs = reference.run(g.finish({"y": y}), {"x": np.float32(3)})  # type: ignore[dict-item]
    assert outputs["y"] == 18
