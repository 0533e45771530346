"""Dilated convolutions, recognised in TensorFlow's form: space-to-batch, Conv, batch-to-space.

That the two are equal is in TensorFlow's documentation of tf.nn.atrous_conv2d.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from vknn.graph import Graph, Node, Op, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.rewriter import Rewriter, merged, sweep

_Kind = type[Op] | tuple[type[Op], ...]


def merge_dilations(graph: Graph) -> Graph:
    """batch_to_space(conv(space_to_batch(x))) = conv(x), dilated by the blocks.

    Each image of the batch in between holds every b-th pixel of x, along either axis; so its
    neighbouring pixels lie b apart in x, and padding it by one pixel pads x by b.
    """
    return sweep(graph, _merge, (Transpose,))


def _merge(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if not isinstance(node.op, Reshape):
        return None
    after = _before(rewriter, node, (Transpose, Reshape, (Conv, QuantizedConv)))
    if after is None:
        return None
    turned, split, conv = after
    before = _before(rewriter, conv, (Reshape, Transpose, Reshape))
    if before is None or not isinstance(conv.op, Conv | QuantizedConv):
        return None
    joined, spread, cut = before
    x, dims, out = cut.inputs[0], cut.outputs[0].type.dims, conv.outputs[0].type.dims
    if x is None or not x.type.is_static or set(conv.op.strides) != {1}:
        return None
    (n, channels, *space), count = x.type.dims, x.type.rank - 2
    inner, blocks = dims[2::2], dims[3::2]
    if dims[:2] != (n, channels) or [a * b for a, b in zip(inner, blocks, strict=False)] != space:
        return None
    to_batch = [*range(3, 2 * count + 2, 2), 0, 1, *range(2, 2 * count + 2, 2)]
    to_space = [count, count + 1]
    to_space += [axis for i in range(count) for axis in (count + 2 + i, i)]
    whole = (n, out[1], *(a * b for a, b in zip(out[2:], blocks, strict=False)))
    fits = (
        joined.outputs[0].type.dims == (n * math.prod(blocks), channels, *inner)
        and _perm(spread.op) == to_batch
        and _perm(turned.op) == to_space
        and split.outputs[0].type.dims == (*blocks, n, *out[1:])
        and node.outputs[0].type.dims == whole
    )
    if not fits:
        return None
    op = dataclasses.replace(
        conv.op,
        dilations=tuple(d * b for d, b in zip(conv.op.dilations, blocks, strict=True)),
        pads=tuple(p * b for p, b in zip(conv.op.pads, 2 * blocks, strict=True)),
    )
    origin = merged(conv.origin, node.origin)
    return rewriter.emit(op, (x, *conv.inputs[1:]), origin, node)


def _before(rewriter: Rewriter, node: Node, kinds: Sequence[_Kind]) -> list[Node] | None:
    """The nodes that lead to the first input of ``node``, the last first, if of these kinds."""
    found: list[Node] = []
    for kind in kinds:
        one = rewriter.sole_producer(node.inputs[0])
        if one is None or not isinstance(one.op, kind):
            return None
        found.append(one)
        node = one
    return found


def _perm(op: Op) -> list[int]:
    assert isinstance(op, Transpose)
    return [axis % len(op.perm) for axis in op.perm]
