"""Slices and updates of slices at starts that are data, which are clamped so that they fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.indices import bounded
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.rearrange import DynamicUpdateSlice, SliceUpdate
from vknn.ops.movement.shape import Concat, Expand, Slice


@operator("STABLEHLO_DYNAMIC_SLICE", inputs=(1, None), takes_quantized=True)
def dynamic_slice(c: Context) -> Value:
    """A window of the operand; one start an axis."""
    sizes, dims, y = tuple(c.options["slice_sizes"]), c.x.type.dims, c.x
    starts = _starts(c, 1, sizes)
    if 0 in sizes:
        return c.add(Expand(sizes), c.scalar(0, y.type.dtype))
    for axis, start in starts.items():
        size = sizes[axis]
        if start.constant is not None:
            first = int(start.constant[0])
            y = c.add(Slice((first,), (first + size,), (axis,)), y)
        else:
            steps = c.constant(np.arange(c.makeable(size), dtype=np.int32), "steps")
            y = c.add(Gather(axis, from_end=False), y, c.add(ew.Add(), steps, start))
    c.require(len(dims) == y.type.rank, f"slices {c.x.type}")
    return y


@operator("STABLEHLO_DYNAMIC_UPDATE_SLICE", inputs=(2, None), takes_quantized=True)
def dynamic_update_slice(c: Context) -> Value:
    """The operand with a window replaced by the second one; one start an axis."""
    x, update = c.x, c.value(1)
    same = x.type.dtype is update.type.dtype and x.type.rank == update.type.rank
    c.require(same, f"writes {update.type} into {x.type}")
    sizes, rank = update.type.dims, x.type.rank
    starts = _starts(c, 2, sizes)
    if not starts:
        return update
    if 0 in sizes:
        return x
    zero = c.constant(np.zeros(1, np.int32), "start")
    vectors = [starts.get(a, zero) for a in range(rank)]
    vector = c.add(Concat(0), *vectors) if rank > 1 else vectors[0]
    if vector.constant is not None:
        return c.add(SliceUpdate(tuple(vector.constant.tolist())), x, update)
    return c.add(DynamicUpdateSlice(), x, update, vector)


def _starts(c: Context, first: int, sizes: Sequence[int]) -> dict[int, Value]:
    """Clamped starts, int32 [1], of the axes along which a window is smaller than the operand.

    They are the inputs from ``first`` on.
    """
    dims, given = c.x.type.dims, len(c.inputs) - first
    fits = len(sizes) == len(dims) == given
    fits = fits and all(0 <= s <= d for s, d in zip(sizes, dims, strict=True))
    c.require(fits, f"has a window {list(sizes)} of {c.x.type} and {given} starts")
    found = {}
    for axis, (size, whole) in enumerate(zip(sizes, dims, strict=True)):
        start = c.value(first + axis)
        c.require(start.type.size == 1, f"has the start {start.type}, not one number")
        if size < whole:
            found[axis] = bounded(c, c.reshape(start, (1,)), [0], [whole - size])
    return found
