"""Shifts of quantized data (a constant added) folded into what reads them: a convolution, or the
DequantizeLinear of bytes."""

from __future__ import annotations

import dataclasses

import numpy as np

from vknn.graph import DType, Graph, Node, Value
from vknn.ops.elementwise import Cast, Sub
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.ops.quantized.linear import DequantizeLinear
from vknn.passes.patterns import scalar_constant
from vknn.passes.rewriter import Rewriter, merged, sweep

_BYTES = (DType.INT8, DType.UINT8)


def fold_shifts(graph: Graph) -> Graph:
    """conv(x + d) with zero point z = conv(x) with z - d, for tables that only add d to a byte.

    Many models begin like this that compute in int8 and are given uint8. Ops that only move
    elements may lie between the two. (x - z) * scale is one DequantizeLinear of bytes.
    """
    return sweep(graph, _fold, (TableLookup, DequantizeLinear))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if isinstance(node.op, DequantizeLinear):
        return _of_bytes(rewriter, node, node.op)
    return _of_table(rewriter, node) if isinstance(node.op, QuantizedConv) else None


def _of_bytes(rewriter: Rewriter, node: Node, op: DequantizeLinear) -> tuple[Value, ...] | None:
    """DequantizeLinear of the bytes themselves, for one of them as int32 less a zero point."""
    whole, zero = node.inputs[0], 0
    origins = [node.origin]
    made = rewriter.sole_producer(whole)
    if made is not None and isinstance(made.op, Sub) and _keeps_shape(made):
        number = scalar_constant(made.inputs[1])
        if number is None:
            return None
        zero, origins = int(number), [made.origin, *origins]
        made = rewriter.producer(made.inputs[0])
    if made is None or not isinstance(made.op, Cast) or made.op.to is not DType.INT32:
        return None
    x = made.inputs[0]
    if op.zero or x is None or x.type.dtype not in _BYTES or abs(zero) >= 1 << 16:
        return None
    found = dataclasses.replace(op, zero=zero)
    origin = merged(made.origin, *origins)
    return rewriter.emit(found, (x, *node.inputs[1:]), origin, node)


def _keeps_shape(node: Node) -> bool:
    """Whether the result has the shape of the first input."""
    given = node.input_types[0]
    return given is not None and given.shape == node.outputs[0].type.shape


def _of_table(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    assert isinstance(node.op, QuantizedConv)
    movers: list[Node] = []
    before = rewriter.producer(node.inputs[0])
    while before is not None and isinstance(before.op, Transpose | Reshape):
        movers.append(before)
        before = rewriter.producer(before.inputs[0])
    added = None if before is None else _added(before)
    if before is None or added is None:
        return None
    value = before.inputs[0]
    for mover in reversed(movers):
        (value,) = rewriter.emit(mover.op, (value,), mover.origin)
    op = dataclasses.replace(node.op, zero_in=node.op.zero_in - added)
    origin = merged(before.origin, node.origin)
    return rewriter.emit(op, (value, *node.inputs[1:]), origin, node)


def _added(node: Node) -> int | None:
    """The number that the node adds to any input it may have; None where it does anything else."""
    if not isinstance(node.op, TableLookup):
        return None
    x, table = node.inputs
    if x is None or table is None or table.constant is None:
        return None
    if x.type.dtype not in _BYTES or table.type.dtype not in _BYTES:
        return None
    info = np.iinfo(x.type.dtype.numpy)
    values = np.arange(info.min, info.max + 1)
    (results,) = node.op.reference(values.astype(x.type.dtype.numpy), table.constant)
    differences = results.astype(np.int64) - values
    return int(differences[0]) if np.all(differences == differences[0]) else None
