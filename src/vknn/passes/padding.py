"""Padding folded into the convolution that reads it."""

from __future__ import annotations

import dataclasses

from vknn.graph import Graph, Node, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Pad, Transpose
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.rewriter import Rewriter, merged, sweep


def fold_padding(graph: Graph) -> Graph:
    """conv(pad(x)) = conv(x) with larger pads, where what counts as 0 surrounds spatial axes alone.

    Where a transpose lies between the two, as at the input of a network with channels last, it then
    reads x itself.
    """
    return sweep(graph, _fold, (Pad,))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if not isinstance(node.op, Conv | QuantizedConv):
        return None
    turned, before = None, rewriter.producer(node.inputs[0])
    if before is not None and isinstance(before.op, Transpose):
        turned = rewriter.sole_producer(node.inputs[0])
        before = turned and rewriter.sole_producer(turned.inputs[0])
    if before is None or not isinstance(before.op, Pad):
        return None
    pad, inputs = before.op, before.inputs
    nothing = node.op.zero_in if isinstance(node.op, QuantizedConv) else 0
    if pad.mode != "constant" or pad.value != nothing or any(v is not None for v in inputs[1:]):
        return None
    rank = len(pad.pads) // 2
    axes = turned.op.perm if turned and isinstance(turned.op, Transpose) else range(rank)
    begins, ends = ([side[a % rank] for a in axes] for side in (pad.pads[:rank], pad.pads[rank:]))
    if any((*begins[:2], *ends[:2])):
        return None
    added = (*begins[2:], *ends[2:])
    pads = tuple(a + b for a, b in zip(node.op.pads, added, strict=True))
    op = dataclasses.replace(node.op, pads=pads)
    origin = merged(before.origin, node.origin)
    x = inputs[0]
    if turned is not None:
        (x,) = rewriter.emit(turned.op, (x,), turned.origin)
    return rewriter.emit(op, (x, *node.inputs[1:]), origin, node)
