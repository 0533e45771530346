"""Shifts of quantized data (a constant added) folded into the convolution that reads them."""

from __future__ import annotations

import dataclasses

import numpy as np

from vknn.graph import DType, Graph, Node, Value
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.rewriter import Rewriter, merged, sweep

_BYTES = (DType.INT8, DType.UINT8)


def fold_shifts(graph: Graph) -> Graph:
    """conv(x + d) with zero point z = conv(x) with z - d, for tables that only add d to a byte.

    Many models begin like this that compute in int8 and are given uint8. Ops that only move
    elements may lie between the two.
    """
    return sweep(graph, _fold, (TableLookup,))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if not isinstance(node.op, QuantizedConv):
        return None
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
