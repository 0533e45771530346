"""Folds zero padding into the convolution that reads it."""

from __future__ import annotations

import dataclasses

from vknn.graph import Graph, Node, Value
from vknn.ops.convolution import Conv
from vknn.ops.movement import Pad
from vknn.passes.rewriter import Rewriter, merged, sweep


def fold_padding(graph: Graph) -> Graph:
    """conv(pad(x)) = conv(x) with larger pads, where zeros were added to spatial axes alone."""
    return sweep(graph, _fold, (Pad,))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if not isinstance(node.op, Conv):
        return None
    before = rewriter.producer(node.inputs[0])
    if before is None or not isinstance(before.op, Pad):
        return None
    pad, inputs = before.op, before.inputs
    if pad.mode != "constant" or pad.value != 0.0 or any(v is not None for v in inputs[1:]):
        return None
    rank = len(pad.pads) // 2
    begins, ends = pad.pads[:rank], pad.pads[rank:]
    if any((*begins[:2], *ends[:2])):
        return None
    added = (*begins[2:], *ends[2:])
    pads = tuple(a + b for a, b in zip(node.op.pads, added, strict=True))
    op = dataclasses.replace(node.op, pads=pads)
    origin = merged(before.origin, node.origin)
    return rewriter.emit(op, (inputs[0], *node.inputs[1:]), origin, node)
