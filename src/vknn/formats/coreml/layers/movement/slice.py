"""Strided slices, sliding windows, reversed axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.sources import requested_shape
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.movement.shape import Slice


@dataclass(frozen=True)
class _Bounds:
    """Begin, end and stride per axis; a mask of an axis overrides its number."""

    begins: Sequence[int]
    ends: Sequence[int]
    strides: Sequence[int]
    begin_masks: Sequence[bool]
    end_masks: Sequence[bool]
    squeeze_masks: Sequence[bool]


def _of_rank(c: Context, given: Sequence[int], rank: int, what: str, default: int) -> list[int]:
    """A list of the file or of an input, which may be absent, with one entry per axis."""
    found = [int(v) for v in given] or [default] * rank
    c.require(len(found) == rank, f"{what} {found} should be {rank} numbers for {c.x.type}")
    return found


def _sliced(c: Context, bounds: _Bounds) -> Value:
    parts: list[tuple[int, int, int]] = []
    for axis, size in enumerate(c.x.type.dims):
        start, end, step = bounds.begins[axis], bounds.ends[axis], bounds.strides[axis]
        if bounds.squeeze_masks[axis]:
            inside = -size <= start < size
            c.require(inside, f"takes element {start} of axis {axis} of {c.x.type}")
            parts.append((start % size, start % size + 1, 1))
            continue
        c.require(step != 0, f"has a stride of 0 along axis {axis}")
        # Indices beyond either end are clamped; -size - 1 is before the first element.
        start = (0 if step > 0 else size - 1) if bounds.begin_masks[axis] else start
        end = (size if step > 0 else -size - 1) if bounds.end_masks[axis] else end
        parts.append((start, end, step))
    starts, ends, steps = zip(*parts, strict=True)
    y = c.add(Slice(starts, ends, None, steps), c.x)
    kept = [
        s for s, squeezed in zip(y.type.dims, bounds.squeeze_masks, strict=True) if not squeezed
    ]
    return c.reshape(y, kept or [1])


@layer("sliceStatic")
def slice_static(c: Context) -> Value:
    """x[begin:end:stride] along each axis."""
    p, rank = c.params, c.x.type.rank
    begins = _of_rank(c, p.beginIds, rank, "beginIds", 0)
    stated = len(p.beginIds) > 0 or (len(p.beginMasks) > 0 and all(p.beginMasks))
    c.require(stated, "has no beginIds")
    return _sliced(c, _stated(c, begins, 1))


@layer("sliceDynamic", inputs=(2, 7))
def slice_dynamic(c: Context) -> Value:
    """sliceStatic with inputs x, begin, and optionally end, strides and masks."""
    begins = _of_rank(c, c.ints(1, "begin"), c.x.type.rank, "begin", 0)
    return _sliced(c, _stated(c, begins, 2))


def _stated(c: Context, begins: list[int], first: int) -> _Bounds:
    """Bounds of the file and of inputs; ``first``: the input that would hold the ends."""
    p, rank = c.params, c.x.type.rank

    def given(place: int, field: Sequence[int], what: str) -> Sequence[int]:
        number = first + place
        # Only a dynamic slice has inputs in place of fields.
        return c.ints(number, what) if number < len(c.inputs) else field

    def numbers(place: int, field: Sequence[int], what: str, default: int) -> list[int]:
        found = given(place, field, what)
        # Those of a dynamic slice may go on behind the last axis, where they mean nothing.
        return _of_rank(c, found[:rank] if first > 1 else found, rank, what, default)

    begin_masks = numbers(2, p.beginMasks, "beginMasks", 0)
    end_masks = numbers(3, p.endMasks, "endMasks", 0)
    squeezed = numbers(4, p.squeezeMasks, "squeezeMasks", 0)
    listed = given(0, p.endIds, "endIds")
    needed = [a for a in range(rank) if not end_masks[a] and not squeezed[a]]
    c.require(len(listed) > 0 or not needed, "has no endIds")
    return _Bounds(
        begins,
        _of_rank(c, listed, rank, "endIds", 0),
        numbers(1, p.strides, "strides", 1),
        [v != 0 for v in begin_masks],
        [v != 0 for v in end_masks],
        [v != 0 for v in squeezed],
    )


@layer("sliceBySize", inputs=2)
def slice_by_size(c: Context) -> Value:
    """``size`` entries along an axis, from the index in the second input on.

    A negative index counts from the end. Entries that are known to be missing are an error; at run
    time the nearest entry takes their place.
    """
    p, dims, begin = c.params, c.x.type.dims, c.value(1)
    axis, size = c.axis(p.axis, len(dims)), int(p.size)
    c.require(0 < size <= dims[axis], f"takes {size} of axis {axis} of {c.x.type}")
    c.require(begin.type.size == 1, f"begin is no single number, but {begin.type}")
    if begin.constant is not None:
        (start,) = c.ints(1, "begin")
        start += dims[axis] if start < 0 else 0
        inside = 0 <= start <= dims[axis] - size
        c.require(inside, f"takes {size} from {start} on of axis {axis} of {c.x.type}")
        return c.add(Slice((start,), (start + size,), (axis,)), c.x)
    start_at = c.reshape(c.cast(begin, DType.INT32), (1,))
    start_at = from_start(c, start_at, dims[axis])
    places = c.add(ew.Add(), start_at, c.constant(np.arange(size, dtype=np.int32), "places"))
    return c.add(Gather(axis, from_end=False), c.x, places)


def from_start(c: Context, places: Value, size: int) -> Value:
    """int32 indices, with negative ones counted from the end of an axis of ``size``."""
    below = c.add(Less(), places, c.scalar(0, DType.INT32))
    moved = c.add(ew.Add(), places, c.scalar(size, DType.INT32))
    return c.add(Where(), below, moved, places)


@layer("slidingWindows")
def sliding_windows(c: Context) -> Value:
    """Windows of an axis as two axes in its place: window, and position in it."""
    p, dims = c.params, c.x.type.dims
    axis = c.axis(p.axis, len(dims))
    size, step, length = int(p.windowSize), int(p.step), dims[axis]
    c.require(0 < size <= length, f"a window of {size} does not suit axis {axis} of {c.x.type}")
    c.require(step > 0, "has a step of 0")
    count = (length - size) // step + 1
    requested_shape(c, [*dims[:axis], count, size, *dims[axis + 1 :]], "the windows")
    c.makeable(count * size)
    places = np.arange(count)[:, None] * step + np.arange(size)
    return c.add(Gather(axis), c.x, c.constant(places.astype(np.int32), "windows"))


@layer("reverse")
def reverse(c: Context) -> Value:
    """The input reversed along the axes that are flagged."""
    flags, dims = list(c.params.reverseDim), c.x.type.dims
    c.require(len(flags) == len(dims), f"reverseDim {flags} does not suit {c.x.type}")
    axes = tuple(a for a, flag in enumerate(flags) if flag)
    starts, ends = tuple(dims[a] - 1 for a in axes), tuple(-dims[a] - 1 for a in axes)
    return c.add(Slice(starts, ends, axes, (-1,) * len(axes)), c.x) if axes else c.x


@layer("reverseSeq", inputs=2)
def reverse_sequence(c: Context) -> Value:
    """The first lengths[b] entries of each item of the batch reversed."""
    p, rank, lengths = c.params, c.x.type.rank, c.value(1)
    batch, sequence = c.axis(p.batchAxis, rank), c.axis(p.sequenceAxis, rank)
    c.require(batch < sequence, f"batchAxis {batch} is not before sequenceAxis {sequence}")
    suits = lengths.type.size == c.x.type.dims[batch]
    c.require(suits, f"lengths {lengths.type} do not suit axis {batch} of {c.x.type}")
    vector = c.reshape(c.cast(lengths, DType.INT32), (lengths.type.size,))
    return c.add(ReverseSequence(batch, sequence), c.x, vector)
