"""Reshaping, joining and cutting in networks of [Seq, Batch, C, H, W]."""

from __future__ import annotations

import math

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merges_batch_axes
from vknn.formats.coreml.registry import Result, layer
from vknn.graph import Value
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Concat, Slice

_CHANNEL, _SEQUENCE = 3, 5  # counted from the end
_CHANNEL_LAST = 1
_SLICE_AXES = {0: 3, 1: 2, 2: 1}
#: Axes of [Seq, Batch, C, H, W] that ``permute`` numbers.
_PERMUTED = (0, 2, 3, 4)


def _rank(c: Context, least: int) -> int:
    rank = c.x.type.rank
    c.require(rank >= least, f"takes rank {least} or more, not {c.x.type}")
    return rank


@layer("reshape")
def reshape(c: Context) -> Value:
    """[Seq, B, C, H, W] in ``targetShape``, [C, H, W] or [Seq, C, H, W], for each item of the
    batch.

    CHANNEL_LAST: elements are read and written with the channels as the innermost axis.
    """
    x, target = c.x, list(c.params.targetShape)
    c.require(x.type.rank == 5, f"takes rank 5, not {x.type}")
    c.require(len(target) in (3, 4), f"targetShape {target} is not [C, H, W] or [Seq, C, H, W]")
    sequence, batch, *image = x.type.dims
    if len(target) == 3:
        target = [sequence, *target]
    target = resolve_shape(c, target, sequence * math.prod(image), "targetShape")
    last = c.params.mode == _CHANNEL_LAST
    if last:
        x = c.transpose(x, (0, 1, 3, 4, 2))
        target = [target[0], *target[2:], target[1]]
    across = batch > 1 and target[0] != sequence
    if across:
        x = c.transpose(x, (1, 0, 2, 3, 4))
        x = c.transpose(c.reshape(x, (batch, *target)), (1, 0, 2, 3, 4))
    else:
        x = c.reshape(x, (target[0], batch, *target[1:]))
    return c.transpose(x, (0, 1, 4, 2, 3)) if last else x


def resolve_shape(c: Context, shape: list[int], count: int, what: str) -> list[int]:
    """``shape`` of ``count`` elements; one size may be -1 and is computed."""
    c.require(shape.count(-1) <= 1 and min(shape) >= -1, f"{what} {shape} is no shape")
    known = math.prod(d for d in shape if d != -1)
    if -1 in shape:
        good = known > 0 and count % known == 0
    else:
        good = known == count
    c.require(good, f"{what} {shape} does not suit {c.x.type} of {count} elements")
    return [count // known if d == -1 else d for d in shape]


@layer("flatten")
def flatten(c: Context) -> Value:
    """[..., C, H, W] as [..., C * H * W, 1, 1]; CHANNEL_LAST: in the order H, W, C."""
    rank, x = _rank(c, _CHANNEL), c.x
    lead = x.type.dims[: rank - 3]
    if c.params.mode == _CHANNEL_LAST:
        x = c.transpose(x, (*range(rank - 3), rank - 2, rank - 1, rank - 3))
    return c.reshape(x, (*lead, math.prod(x.type.dims[rank - 3 :]), 1, 1))


@layer("permute")
def permute(c: Context) -> Value:
    """Transpose of the axes Seq, C, H, W; the batch axis stays."""
    axes = list(c.params.axis) or [0, 1, 2, 3]
    c.require(c.x.type.rank == 5, f"takes rank 5, not {c.x.type}")
    c.require(sorted(axes) == [0, 1, 2, 3], f"axis {axes} is no order of 0, 1, 2, 3")
    seq, *image = (_PERMUTED[a] for a in axes)
    return c.transpose(c.x, (seq, 1, *image))


@layer("concat", inputs=(2, None))
def concat(c: Context) -> Result:
    """Concatenation along the channels, or with ``sequenceConcat`` along the sequence."""
    if not c.params.sequenceConcat:
        return _of_channels(c)
    return c.add(Concat(_rank(c, _SEQUENCE) - _SEQUENCE), *c.inputs)


@merges_batch_axes
def _of_channels(c: Context) -> Value:
    return c.add(Concat(_rank(c, _CHANNEL) - _CHANNEL), *c.inputs)


@layer("split", outputs=(1, None))
@merges_batch_axes
def split(c: Context) -> list[Value]:
    """Equal parts of the channels."""
    axis, count = _rank(c, _CHANNEL) - _CHANNEL, int(c.params.nOutputs)
    size = c.x.type.dims[axis]
    good = count > 0 and size % count == 0
    c.require(good, f"cannot split {size} channels of {c.x.type} into {count}")
    return parts(c, axis, [size // count] * count)


def parts(c: Context, axis: int, sizes: list[int]) -> list[Value]:
    """The input cut along ``axis`` in parts of ``sizes``, one for each output."""
    named = len(c.layer.outputs)
    c.require(named == len(sizes), f"names {named} outputs for {len(sizes)} parts")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    cut = zip(sizes, ends, strict=True)
    return [c.add(Slice((end - size,), (end,), (axis,)), c.x) for size, end in cut]


@layer("sequenceRepeat")
def sequence_repeat(c: Context) -> Value:
    """Repetitions of the whole sequence; 0 stands for one."""
    rank, count = _rank(c, _SEQUENCE), int(c.params.nRepetitions) or 1
    repeats = [1] * rank
    repeats[rank - _SEQUENCE] = count
    c.size([s * r for s, r in zip(c.x.type.dims, repeats, strict=True)])
    return c.x if count == 1 else c.add(Tile(tuple(repeats)), c.x)


@layer("slice")
@merges_batch_axes
def slice_(c: Context) -> Value:
    """x[start:end:stride] of the channels, rows or columns, with Python's semantics."""
    p = c.params
    back = _SLICE_AXES.get(p.axis)
    if back is None:
        c.fail(f"has no axis {p.axis}")
    axis = _rank(c, back) - back
    c.require(p.stride > 0, f"has a stride of {p.stride}")
    y = c.add(Slice((p.startIndex,), (p.endIndex,), (axis,), (int(p.stride),)), c.x)
    c.require(y.type.dims[axis] > 0, f"takes nothing of {c.x.type}: {p.startIndex}:{p.endIndex}")
    return y
