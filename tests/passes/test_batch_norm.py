from __future__ import annotations

import numpy as np
import pytest

from vknn.graph import Graph, GraphBuilder, TensorType, Value
from vknn.ops.convolution.conv import Conv, ExactConv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Add, Div, Mul, Relu, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import BatchNormalization
from vknn.ops.pooling.pool import MaxPool
from vknn.passes.batch_norm import fold_batch_norm

random = np.random.default_rng(1)


def array(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return random.uniform(0.5, 2, shape).astype(np.float32)


class Net(GraphBuilder):
    """A builder with constants of random values."""

    def conv(
        self, x: Value, maps: int = 6, bias: bool = True, pad: int = 1, group: int = 1
    ) -> Value:
        channels = x.type.dims[1] // group
        op = Conv((1, 1), (pad,) * 4, (1, 1), group)
        extra = [self.constant(array(maps))] if bias else []
        return self.add(op, x, self.constant(array(maps, channels, 3, 3)), *extra)

    def norm(self, x: Value) -> Value:
        c = x.type.dims[1]
        vectors = (array(c), array(c), array(c), positive(c))
        return self.add(BatchNormalization(1e-3), x, *(self.constant(v) for v in vectors))

    def apply(self, op: Add | Sub | Mul | Div, x: Value, *shape: int, first: bool = False) -> Value:
        c = self.constant(positive(*shape))
        return self.add(op, *((c, x) if first else (x, c)))


def image() -> tuple[Net, Value]:
    g = Net()
    return g, g.input("x", TensorType((1, 4, 5, 5)))


def ops(graph: Graph) -> list[str]:
    return [n.op.type_name for n in graph.nodes]


def check(same_results, graph: Graph, *expected: str) -> None:  # type: ignore[no-untyped-def]
    after = fold_batch_norm(graph)
    same_results(graph, after)
    assert ops(after) == list(expected)


@pytest.mark.parametrize("bias", [True, False])
def test_norm_behind_conv(becomes, bias) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    becomes(
        g.finish({"y": g.norm(g.conv(x, bias=bias))}),
        fold_batch_norm,
        "BatchNormalization: float32[1, 6, 5, 5] = "
        "Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1)"
        "(x, const float32[6, 4, 3, 3], const float32[6])\noutput y = BatchNormalization",
    )


def test_a_chain_behind_conv(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.norm(g.conv(x))
    y = g.apply(Mul(), y, 1, 6, 1, 1)
    y = g.apply(Add(), y, 6, 1, 1, first=True)
    y = g.apply(Sub(), g.apply(Sub(), y, 1, first=True), 6, 1, 1)
    y = g.apply(Div(), y, 1, 6, 1, 1)
    check(same_results, g.finish({"y": y}), "Conv")


def test_behind_grouped_conv(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    check(same_results, g.finish({"y": g.norm(g.conv(x, maps=8, group=4))}), "Conv")


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5)])
def test_behind_and_before_matmul(same_results, transpose, shape) -> None:  # type: ignore[no-untyped-def]
    g = Net()
    x = g.input("x", TensorType(shape))
    y = g.apply(Add(), g.apply(Mul(), x, 5), 1, 5)
    w = g.constant(array(7, 5) if transpose else array(5, 7))
    y = g.add(MatMul(transpose_b=transpose), y, w)
    y = g.apply(Sub(), g.apply(Mul(), y, 7), 1, 7, first=True)
    check(same_results, g.finish({"y": y}), "MatMul")


def test_norm_behind_matmul(same_results) -> None:  # type: ignore[no-untyped-def]
    g = Net()
    x = g.input("x", TensorType((3, 5)))
    y = g.norm(g.add(MatMul(), x, g.constant(array(5, 7)), g.constant(array(7))))
    check(same_results, g.finish({"y": y}), "MatMul")


def test_before_conv_without_padding(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.conv(g.norm(g.add(Relu(), x)), pad=0, group=2)
    check(same_results, g.finish({"y": y}), "Relu", "Conv")


def test_a_scale_before_conv_with_padding(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    check(same_results, g.finish({"y": g.conv(g.apply(Mul(), x, 1, 4, 1, 1))}), "Conv")


def test_a_shift_before_padding_stays(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.conv(g.apply(Add(), x, 1, 4, 1, 1))
    check(same_results, g.finish({"y": y}), "Add", "Conv")


def test_a_norm_alone_becomes_mul_and_add(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.norm(g.norm(g.add(MaxPool((2, 2), (2, 2), (0,) * 4), x)))
    check(same_results, g.finish({"y": y}), "MaxPool", "Mul", "Add")


def test_what_others_read_stays(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    inner = g.conv(x)
    graph = g.finish({"y": g.apply(Mul(), inner, 1), "z": inner})
    check(same_results, graph, "Conv", "Mul")


@pytest.mark.parametrize("shape", [(1, 1, 5, 1), (1, 6, 5, 1), (2, 1, 1, 1)])
def test_other_axes_stay(same_results, shape) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    graph = g.finish({"y": g.apply(Mul(), g.conv(x), *shape)})
    check(same_results, graph, "Conv", "Mul")


def test_weights_known_at_run_time_only_stay(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    w = g.input("w", TensorType((6, 4, 3, 3)))
    y = g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, w)
    check(same_results, g.finish({"y": g.apply(Mul(), y, 1)}), "Conv", "Mul")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_constants_that_are_not_finite_stay(value: float) -> None:
    g, x = image()
    y = g.add(Mul(), g.conv(x), g.constant(np.array([value], np.float32)))
    assert ops(fold_batch_norm(g.finish({"y": y}))) == ["Conv", "Mul"]


def test_an_overflowing_product_stays() -> None:
    g, x = image()
    y = g.add(Mul(), g.conv(x), g.constant(np.array([3e38], np.float32)))
    y = g.add(Mul(), y, g.constant(np.array([1e-30], np.float32)))
    assert ops(fold_batch_norm(g.finish({"y": y}))) == ["Conv", "Mul", "Mul"]


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolutions_take_scales_in(same_results, group: int) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    op = ConvTranspose((2, 2), (1, 1, 1, 1), (1, 1), group)
    y = g.add(op, x, g.constant(array(4, 3, 3, 3)), g.constant(array(3 * group)))
    check(same_results, g.finish({"y": g.norm(y)}), "ConvTranspose")
    g, x = image()
    y = g.apply(Mul(), g.add(op, x, g.constant(array(4, 3, 3, 3))), 3 * group, 1, 1)
    check(same_results, g.finish({"y": y}), "ConvTranspose")


def test_sums_of_whole_numbers_are_scaled_where_they_stand(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    sums = g.add(ExactConv((1, 1), (0,) * 4, (1, 1)), x, g.constant(array(6, 4, 3, 3)))
    y = g.apply(Mul(), sums, 1, 6, 1, 1)
    check(same_results, g.finish({"y": y}), "ExactConv", "Mul")


def test_a_shift_without_a_float32_is_not_taken_apart() -> None:
    g, x = image()
    vectors = [np.full(4, v, np.float32) for v in (1e20, 1.0, 1e20, 1.0)]
    y = g.add(BatchNormalization(1e-3), x, *(g.constant(v) for v in vectors))
    assert ops(fold_batch_norm(g.finish({"y": y}))) == ["BatchNormalization"]
