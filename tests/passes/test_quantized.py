"""Passes over quantized convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands
from tests.ops.quantized.test_convolution_sum import added

from vknn.graph import DType, GraphBuilder, TensorType
from vknn.ops.movement.shape import Transpose
from vknn.ops.quantized.arithmetic import TableLookup
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
