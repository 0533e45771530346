"""Operators between DequantizeLinear and QuantizeLinear on the integers themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vknn import reference
from vknn.graph import DType, Graph, GraphBuilder, Op, Quantization, TensorType, Value, validate
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Cast
from vknn.ops.matmul import MatMul
from vknn.ops.movement.rearrange import DepthToSpace, SpaceToDepth
from vknn.ops.movement.shape import Concat, Pad, Reshape, Transpose
from vknn.ops.normalization import BatchNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, MaxPool
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.sampling.resize import Resize
from vknn.passes.integers import compute_on_integers

U8, I8 = DType.UINT8, DType.INT8


class Net(GraphBuilder):
    """A builder of quantized networks, with the ops that ONNX's converters make."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)

    def stored(self, name: str, *shape: int, dtype: DType = U8) -> Value:
        return self.input(name, TensorType(shape, dtype))

    def real(self, x: Value, scale: float, zero: int) -> Value:
        whole = self.add(Cast(DType.INT32), x)
        if zero:
            whole = self.add(ew.Sub(), whole, self.constant(np.asarray(zero, np.int32)))
        return self.add(DequantizeLinear(0), whole, self.constant(np.float32(scale)))

    def quantized(self, x: Value, scale: float, zero: int, dtype: DType = U8) -> Value:
        info = np.iinfo(dtype.numpy)
        op = QuantizeLinear(dtype, int(info.min), int(info.max), axis=0)
        held = self.constant(np.asarray(zero, dtype.numpy))
        return self.add(op, x, self.constant(np.float32(scale)), held)

    def weights(self, *shape: int, axis: int | None = None, most: int = 127) -> Value:
        """Constant weights of whole numbers times one scale, or one for each place of an axis."""
        codes = self.random.integers(-most, most + 1, shape)
        codes.reshape(-1)[:1] = most
        count = 1 if axis is None else shape[axis]
        scales = self.random.uniform(0.001, 0.01, count).astype(np.float32)
        along = [1] * len(shape)
        along[axis or 0] = -1
        real = (codes * scales.reshape(along)).astype(np.float32)
        held = Quantization(tuple(float(s) for s in scales), (0,), axis or 0)
        return self.constant(real, "w", held)

    def numbers(self, count: int, low: float = -0.5, high: float = 0.5) -> Value:
        return self.constant(self.random.uniform(low, high, count).astype(np.float32))


def nodes(graph: Graph) -> list[str]:
    return [n.op.type_name for n in graph.nodes]


def within_a_step(graph: Graph, share: float = 0.01) -> Graph:
    """The graph after the pass, whose results differ by one step in so many places at most."""
    after = compute_on_integers(graph)
    validate(after)
    random = np.random.default_rng(1)
    feeds = {
        v.name: random.integers(np.iinfo(v.type.dtype.numpy).min,
                                np.iinfo(v.type.dtype.numpy).max + 1, v.type.dims)
        .astype(v.type.dtype.numpy) for v in graph.inputs
    }  # fmt: skip
    wanted, found = reference.run(graph, feeds), reference.run(after, feeds)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        far = np.abs(found[name].astype(float) - array.astype(float))
        assert far.max(initial=0) <= 1 and (far > 0).mean() <= share
        assert len(np.unique(array)) > 10  # not all beyond the range
    return after


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize(("axis", "most"), [(None, 127), (0, 127), (0, 200)])
@pytest.mark.parametrize("bias", [True, False])
def test_convolution(dtype: DType, axis: int | None, most: int, bias: bool) -> None:
    g = Net()
    x = g.real(g.stored("x", 2, 5, 7, 6, dtype=dtype), 0.02, 3)
    w, b = g.weights(4, 5, 3, 3, axis=axis, most=most), g.numbers(4) if bias else None
    y = g.add(Conv((1, 2), (1, 0, 1, 1), (1, 1)), x, w, b)
    after = within_a_step(g.finish({"y": g.quantized(y, 0.05, 100 if dtype is U8 else 5, dtype)}))
    assert nodes(after) == ["QuantizedConv"]
    assert after.nodes[0].inputs[1].type.dtype is (I8 if most < 128 else DType.INT16)


@pytest.mark.parametrize(
    "step", [ew.Relu(), ew.Clip(0.0, 3.0), ew.Clip(-1.5, 2.2)], ids=["relu", "clip6", "clip"]
)
def test_bounds_join(step: ew.Unary) -> None:
    g = Net()
    x = g.real(g.stored("x", 1, 4, 7, 6), 0.02, 0)
    y = g.add(step, g.add(Conv((1, 1), (0,) * 4, (1, 1), 4), x, g.weights(4, 1, 3, 3), None))
    assert nodes(within_a_step(g.finish({"y": g.quantized(y, 0.02, 30)}))) == ["QuantizedConv"]


@pytest.mark.parametrize("turned", [False, True])
def test_products(turned: bool) -> None:
    g = Net()
    x = g.real(g.stored("x", 2, 3, 11), 0.02, 90)
    w = g.weights(7, 11, axis=0) if turned else g.weights(11, 7, axis=1)
    y = g.add(MatMul(transpose_b=turned), x, w, g.numbers(7))
    assert nodes(within_a_step(g.finish({"y": g.quantized(y, 0.05, 100)}))) == ["QuantizedGemm"]


def test_products_of_two_tensors() -> None:
    g = Net()
    a, b = g.real(g.stored("a", 2, 3, 11), 0.02, 90), g.real(g.stored("b", 2, 11, 5), 0.01, 128)
    y = g.quantized(g.add(MatMul(), a, b), 0.07, 100)
    assert nodes(within_a_step(g.finish({"y": y}))) == ["QuantizedGemm"]


def normalized(g: Net, x: Value, channels: int) -> Value:
    vectors = [g.numbers(channels, -2, 2), g.numbers(channels), g.numbers(channels)]
    return g.add(BatchNormalization(1e-3), x, *vectors, g.numbers(channels, 0.1, 2))


def test_normalization_alone() -> None:
    g = Net()
    y = normalized(g, g.real(g.stored("x", 2, 5, 7, 6), 0.02, 90), 5)
    after = within_a_step(g.finish({"y": g.quantized(y, 0.03, 100)}))
    assert nodes(after) == ["QuantizedConv"] and after.nodes[0].op.group == 5


@pytest.mark.parametrize("read", [False, True])
def test_normalization_behind_a_convolution(read: bool) -> None:
    """It is part of the convolution unless others read what is between."""
    g = Net()
    x = g.real(g.stored("x", 1, 3, 7, 6), 0.02, 90)
    conv = g.add(Conv((1, 1), (1,) * 4, (1, 1)), x, g.weights(5, 3, 3, 3), None)
    between = g.quantized(conv, 0.03, 77)
    y = g.quantized(normalized(g, g.real(between, 0.03, 77), 5), 0.04, 100)
    outputs = {"y": y, "between": between} if read else {"y": y}
    after = within_a_step(g.finish(outputs))
    assert nodes(after) == ["QuantizedConv"] * (2 if read else 1)
    assert read or after.nodes[0].op.rounding == "twice"


@pytest.mark.parametrize("op", [ew.Add(), ew.Sub(), ew.Mul()], ids=["add", "sub", "mul"])
@pytest.mark.parametrize("scale", [0.05, 0.08])
def test_two_tensors(op: ew.Binary, scale: float) -> None:
    """Of scales of which one is twice the other, so that half of the sums lie between numbers."""
    g = Net()
    a, b = g.real(g.stored("a", 2, 3, 50), 0.04, 9), g.real(g.stored("b", 3, 1), 0.02, 77)
    y = g.quantized(g.add(op, a, b), scale, 60)
    assert nodes(within_a_step(g.finish({"y": y}), 0)) == ["QuantizedBinary"]


@pytest.mark.parametrize(
    "pool",
    [AveragePool((2, 3), (1, 2), (0,) * 4), AveragePool((2, 2), (1, 1), (1,) * 4, True),
     GlobalAveragePool()],
    ids=["plain", "padded", "whole"],
)  # fmt: skip
def test_means(pool: Op) -> None:
    g = Net()
    x = g.real(g.stored("x", 3, 5, 7, 6), 0.0213, 90)
    y = g.quantized(g.add(pool, x), 0.0113, 100)
    assert nodes(within_a_step(g.finish({"y": y}))) == ["QuantizedConv"]


def test_means_of_windows_that_differ_in_size_stay() -> None:
    g = Net()
    x = g.real(g.stored("x", 1, 3, 7, 6), 0.02, 90)
    y = g.quantized(g.add(AveragePool((2, 2), (1, 1), (1,) * 4), x), 0.02, 90)
    graph = g.finish({"y": y})
    assert nodes(compute_on_integers(graph)) == nodes(graph)


@pytest.mark.parametrize("same", [True, False])
def test_moved_bytes(same: bool) -> None:
    g = Net()
    scale = 0.02 if same else 0.03
    x = g.real(g.stored("x", 2, 3, 4, 5), 0.02, 90)
    y = g.quantized(g.add(Transpose((0, 2, 3, 1)), x), scale, 90)
    z = g.quantized(g.add(Reshape((2, 60)), g.real(y, scale, 90)), scale, 90)
    w = g.quantized(g.add(MaxPool((2, 2), (1, 1), (0,) * 4), x), 0.02, 90)
    after = within_a_step(g.finish({"z": z, "w": w}), 0)
    expected = ["Transpose", "Reshape", "MaxPool"]
    assert nodes(after) == expected if same else ["TableLookup", *expected]


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (Resize((8, 10), "nearest", "asymmetric", (0.5, 0.5)), "Resize"),
        (Pad((0, 0, 1, 2, 0, 0, 0, 3), "constant", 0.31), "Pad"),
        (Pad((0, 0, 1, 2, 0, 0, 0, 3), "constant", -1e9), "Pad"),
        (Pad((0, 0, 1, 2, 0, 0, 0, 3), "reflect"), "Pad"),
        (DepthToSpace(2), "DepthToSpace"), (SpaceToDepth(2), "SpaceToDepth"),
    ],
)  # fmt: skip
def test_bytes_that_are_repeated_padded_and_rearranged(op: Op, name: str) -> None:
    g = Net()
    x = g.real(g.stored("x", 2, 4, 4, 6), 0.02, 90)
    y = g.quantized(g.add(op, x), 0.02, 90)
    assert nodes(within_a_step(g.finish({"y": y}), 0)) == [name]


def test_resizes_that_compute_stay_floats() -> None:
    g = Net()
    x = g.real(g.stored("x", 2, 4, 4, 5), 0.02, 90)
    op = Resize((8, 10), "linear", "asymmetric", (0.5, 0.5))
    graph = g.finish({"y": g.quantized(g.add(op, x), 0.02, 90)})
    assert "QuantizeLinear" in nodes(compute_on_integers(graph))


def test_joined_bytes() -> None:
    g = Net()
    parts = [g.real(g.stored(n, 2, 30), s, z) for n, s, z in (("a", 0.02, 9), ("b", 0.03, 9))]
    y = g.quantized(g.add(Concat(1), *parts), 0.02, 9)
    assert nodes(within_a_step(g.finish({"y": y}), 0)) == ["TableLookup", "Concat"]


def test_tables() -> None:
    g = Net()
    x = g.real(g.stored("x", 2, 3, 40), 0.02, 90)
    y = g.add(ew.Mul(), g.add(ew.Sigmoid(), x), g.constant(np.full((1, 1), 3, np.float32)))
    y = g.quantized(g.add(ew.Sub(), g.constant(np.float32(1)), y), 0.01, 128)
    assert nodes(within_a_step(g.finish({"y": y}), 0)) == ["TableLookup"]


def test_the_same_scales_are_nothing() -> None:
    g = Net()
    x = g.stored("x", 2, 3, 40)
    y = g.quantized(g.real(g.add(Transpose((2, 0, 1)), x), 0.02, 90), 0.02, 90)
    assert nodes(within_a_step(g.finish({"y": y}), 0)) == ["Transpose"]


def _float_weights(g: Net, x: Value) -> Value:
    w = g.constant(g.random.standard_normal((4, 3, 1, 1)).astype(np.float32))
    return g.quantized(g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, w), 0.05, 9)


def _read_twice(g: Net, x: Value) -> Value:
    y = g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, g.weights(4, 3, 1, 1), None)
    return g.quantized(g.add(ew.Add(), g.real(g.quantized(y, 0.05, 9), 0.05, 9), y), 0.05, 9)


def _scale_at_run_time(g: Net, x: Value) -> Value:
    y = g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, g.weights(4, 3, 1, 1), None)
    return g.add(QuantizeLinear(U8, 0, 255), y, g.input("scale", TensorType(())))


def _wide_weights(g: Net, x: Value) -> Value:
    y = g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, g.weights(4, 3, 1, 1, most=300), None)
    return g.quantized(y, 0.05, 9)


def _broadcast(g: Net, x: Value) -> Value:
    y = g.add(ew.Add(), x, g.constant(np.zeros((2, 1, 3, 1, 1), np.float32)))
    return g.quantized(y, 0.05, 9)


@pytest.mark.parametrize(
    "make", [_float_weights, _read_twice, _scale_at_run_time, _wide_weights, _broadcast]
)
def test_what_stays_as_it_is(make: Callable[[Net, Value], Value]) -> None:
    g = Net()
    y = make(g, g.real(g.stored("x", 1, 3, 4, 5), 0.02, 90))
    graph = g.finish({"y": y})
    assert nodes(compute_on_integers(graph)) == nodes(graph)
