"""Passes over quantized convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands
from tests.ops.quantized.test_convolution_sum import added

from vknn.graph import DType, GraphBuilder, TensorType
from vknn.ops.elementwise import Cast, Sub
from vknn.ops.movement.shape import Transpose
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.linear import DequantizeLinear
from vknn.passes.fusion import fuse_elementwise
from vknn.passes.quantized_shifts import fold_shifts


def test_the_sum_joins_the_later_convolution(same_results) -> None:  # type: ignore[no-untyped-def]
    settings, x_shape, w_shape = GEOMETRIES["1x1"]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0])
    g = GraphBuilder()
    value = g.input("x", TensorType.of(x))
    constants = [g.constant(a, n) for a, n in zip((w, bias, q, shift), "wbqs", strict=True)]
    first, second = (g.add(conv(**settings, zero_in=z), value, *constants) for z in (1, 2))
    graph = g.finish({"y": g.add(added("int8"), first, second)})
    fused = fuse_elementwise(graph)
    assert [n.op.type_name for n in fused.nodes] == [
        "QuantizedConv",
        "QuantizedConv+QuantizedBinary",
    ]
    same_results(graph, fused)


@pytest.mark.parametrize("odd", [False, True])
def test_a_shift_is_part_of_the_zero_point(same_results, odd) -> None:  # type: ignore[no-untyped-def]
    """uint8 pictures, channels last, for an int8 convolution; a table with one odd entry stays."""
    settings, x_shape, w_shape = GEOMETRIES["3x3"]
    _, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0])
    table = (np.arange(256) - 128).astype(np.int8)
    table[7] += odd
    g = GraphBuilder()
    n, c, *spatial = x_shape
    value = g.input("x", TensorType((n, *spatial, c), DType.UINT8))
    value = g.add(TableLookup(), value, g.constant(table, "table"))
    value = g.add(Transpose((0, 3, 1, 2)), value)
    constants = [g.constant(a, k) for a, k in zip((w, bias, q, shift), "wbqs", strict=True)]
    graph = g.finish({"y": g.add(conv(**settings, zero_in=-20), value, *constants)})
    after = fold_shifts(graph)
    names = [n.op.type_name for n in after.nodes]
    assert names == (["TableLookup"] if odd else []) + ["Transpose", "QuantizedConv"]
    same_results(graph, after)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("zero", [None, 0, 77])
def test_a_zero_point_is_part_of_the_dequantization(same_results, dtype, zero) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    whole = g.add(Cast(DType.INT32), g.input("x", TensorType((2, 5, 3), dtype)))
    if zero is not None:
        whole = g.add(Sub(), whole, g.constant(np.int32([zero]), "zero"))
    graph = g.finish({"y": g.add(DequantizeLinear(), whole, g.constant(np.float32(0.3), "s"))})
    after = fold_shifts(graph)
    assert [n.op for n in after.nodes] == [DequantizeLinear(zero=zero or 0)]
    same_results(graph, after)


@pytest.mark.parametrize("case", ["channels", "wide", "float", "used", "grown"])
def test_other_shifts_of_a_dequantization_stay(same_results, case) -> None:  # type: ignore[no-untyped-def]
    """One number for each channel; what is no byte or no int32; numbers that others read; zeros
    of more axes than what they are taken off."""
    g = GraphBuilder()
    x = g.input("x", TensorType((5, 3), DType.INT32 if case == "wide" else DType.INT8))
    whole = x if case == "wide" else g.add(Cast(DType.INT16 if case == "float" else DType.INT32), x)
    zeros = {"channels": [1, 2, 3], "grown": [[[7]]]}.get(case, [7])
    held = g.constant(np.array(zeros, whole.type.dtype.numpy), "zero")
    shifted = g.add(Sub(), whole, held)
    y = g.add(DequantizeLinear(0), shifted, g.constant(np.float32(0.3), "s"))
    graph = g.finish({"y": y, "whole": shifted} if case == "used" else {"y": y})
    after = fold_shifts(graph)
    assert len(after.nodes) == len(graph.nodes)
    same_results(graph, after)
