"""Gradients of ops that move data: moved back, and added up where it had been repeated."""

from __future__ import annotations

import numpy as np

from vknn.graph import Value
from vknn.ops.movement import rearrange as a
from vknn.ops.movement import shape as m
from vknn.ops.sampling.resize import Resize
from vknn.training.gradients import gradient
from vknn.training.scope import Scope


@gradient(m.Identity)
def identity(g: Scope, dy: Value) -> Value:
    """dy"""
    return dy


@gradient(m.Reshape)
def reshape(g: Scope, dy: Value) -> Value:
    """dy in the shape of x"""
    return g.reshape(dy, *g.x().type.dims)


@gradient(m.Transpose)
def transpose(g: Scope, dy: Value) -> Value:
    """dy with the axes where they were"""
    return g.transpose(dy, *(int(i) for i in np.argsort(g.op(m.Transpose).perm)))


@gradient(m.Expand)
def expand(g: Scope, dy: Value) -> Value:
    """The sum of all copies"""
    return g.fitted(dy, g.x().type)


@gradient(a.Tile)
def tile(g: Scope, dy: Value) -> Value:
    """The sum of all copies"""
    dims = g.x().type.dims
    pairs = [n for pair in zip(g.op(a.Tile).repeats, dims, strict=True) for n in pair]
    copies = range(0, len(pairs), 2)
    return g.reshape(g.sum(g.reshape(dy, *pairs), list(copies), keepdims=False), *dims)


@gradient(m.Concat)
def concat(g: Scope, dy: Value) -> list[Value | None]:
    """The parts of dy"""
    axis, start, parts = g.op(m.Concat).axis % dy.type.rank, 0, []
    for index in range(len(g.node.inputs)):
        end = start + g.x(index).type.dims[axis]
        parts.append(g.cut(dy, axis, start, end) if g.wants(index) else None)
        start = end
    return parts


@gradient(m.Slice)
def cut(g: Scope, dy: Value) -> Value:
    """dy where it was taken from, 0 elsewhere"""
    dims = g.x().type.dims
    for axis, part in g.op(m.Slice).ranges(len(dims)).items():
        places = range(*part.indices(dims[axis]))
        if len(places) == 0:
            return g.zeros(g.x().type)
        if places.step < 0:
            dy = g.add(m.Slice((-1,), (-(len(places) + 1),), (axis,), (-1,)), dy)
            places = places[::-1]
        dy = _placed(g, dy, axis, places, dims[axis])
    return dy


def _placed(g: Scope, dy: Value, axis: int, places: range, size: int) -> Value:
    """dy with the entries along ``axis`` at ascending ``places`` of ``size``, 0 between."""
    dims = dy.type.dims
    if places.step > 1:
        before, after = dims[:axis], dims[axis + 1 :]
        split = g.reshape(dy, *before, dims[axis], 1, *after)
        spaced = _padded(g, split, axis + 1, 0, places.step - 1)
        dy = g.reshape(spaced, *before, dims[axis] * places.step, *after)
        dy = g.cut(dy, axis, 0, places[-1] - places[0] + 1)
    return _padded(g, dy, axis, places[0], size - places[-1] - 1)


def _padded(g: Scope, x: Value, axis: int, before: int, after: int) -> Value:
    if not before and not after:
        return x
    pads = [0] * (2 * x.type.rank)
    pads[axis], pads[axis + x.type.rank] = before, after
    return g.add(m.Pad(tuple(pads)), x)


@gradient(m.Pad)
def pad(g: Scope, dy: Value) -> tuple[Value | None, Value | None]:
    """The inner part, and where elements are repeated outside the sum of all places."""
    op, x = g.op(m.Pad), g.x()
    inner = dy
    for axis, size in enumerate(x.type.dims):
        before, after = op.pads[axis], op.pads[axis + x.type.rank]
        if op.mode == "constant" or not (before or after):
            inner = g.cut(inner, axis, before, before + size)
        else:
            line = np.pad(np.arange(size), (before, after), mode=op.mode)  # type: ignore[call-overload]
            inner = g.along(inner, axis, (np.arange(size)[:, None] == line).astype(np.float32))
    if not g.wants(1):
        return inner, None
    axes = [i for i in range(dy.type.rank) if i != 1]
    outside = g.minus(g.sum(dy, axes, keepdims=False), _over_channels(g, inner, axes))
    return inner, outside


def _over_channels(g: Scope, inner: Value, axes: list[int]) -> Value:
    """The sums over all but the channels, of which the padding may have added some."""
    op = g.op(m.Pad)
    sums = g.sum(inner, axes, keepdims=False)
    return _padded(g, sums, 0, op.pads[1], op.pads[1 + inner.type.rank])


@gradient(m.ChannelShuffle)
def channel_shuffle(g: Scope, dy: Value) -> Value:
    """The channels where they were"""
    return g.add(m.ChannelShuffle(g.x().type.dims[1] // g.op(m.ChannelShuffle).group), dy)


@gradient(a.DepthToSpace)
def depth_to_space(g: Scope, dy: Value) -> Value:
    """Blocks as channels again"""
    op = g.op(a.DepthToSpace)
    return g.add(a.SpaceToDepth(op.blocksize, op.mode), dy)


@gradient(a.SpaceToDepth)
def space_to_depth(g: Scope, dy: Value) -> Value:
    """Channels as blocks again"""
    op = g.op(a.SpaceToDepth)
    return g.add(a.DepthToSpace(op.blocksize, op.mode), dy)


@gradient(a.SliceUpdate)
def slice_update(g: Scope, dy: Value) -> tuple[Value | None, Value | None]:
    """dy outside of the block, and the block of dy"""
    starts, update = g.op(a.SliceUpdate).starts, g.x(1).type
    dx = g.add(a.SliceUpdate(starts), dy, g.zeros(update)) if g.wants(0) else None
    block = dy
    for axis, (start, size) in enumerate(zip(starts, update.dims, strict=True)):
        block = g.cut(block, axis, start, start + size)
    return dx, block


@gradient(a.ReverseSequence)
def reverse_sequence(g: Scope, dy: Value) -> tuple[Value, None]:
    """dy, reversed likewise"""
    return g.add(g.node.op, dy, g.x(1)), None


@gradient(a.MatrixDiag)
def matrix_diag(g: Scope, dy: Value) -> Value:
    """The diagonal of dy"""
    offset, dims = g.op(a.MatrixDiag).offset, g.x().type.dims
    size = dy.type.dims[-1]
    first = offset if offset > 0 else -offset * size
    flat = g.reshape(dy, *dims[:-1], size * size)
    last = first + (dims[-1] - 1) * (size + 1) + 1
    return g.add(m.Slice((first,), (last,), (len(dims) - 1,), (size + 1,)), flat)


@gradient(Resize)
def resize(g: Scope, dy: Value) -> Value:
    """Gradient by axes: each is a product with a matrix, whose transpose takes dy back."""
    op, x = g.op(Resize), g.x()
    for axis in reversed(range(len(op.sizes))):
        size = x.type.dims[axis + 2]
        matrix = np.zeros((size, op.sizes[axis]))
        for places, weights in op.taps(axis, size):
            np.add.at(matrix, (places, np.arange(op.sizes[axis])), weights)
        if size != op.sizes[axis] or not np.array_equal(matrix, np.eye(size)):
            dy = g.along(dy, axis + 2, matrix)
    return dy
