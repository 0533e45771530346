"""Places of the largest elements of windows, and MaxUnpool, which puts elements back there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import WindowAttributes, pool_pads, window
from vknn.formats.onnx.layers.movement.made import MAX_MADE
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax
from vknn.ops.movement.shape import Expand, Pad, Slice


def largest_places(c: Context, w: WindowAttributes) -> Value:
    """int64 places of the largest elements of windows in the whole tensor; of equal ones the first.

    Elements are counted row by row; with ``storage_order`` 1 those of a channel column by column.
    """
    x, dims = c.x, c.x.type.dims
    sizes, planes = dims[2:], dims[0] * dims[1]
    places, inside = _taps(c, w, sizes)
    out = places[0].shape[1:]
    taps, count = len(places[0]), math.prod(out)
    c.require(taps * count <= MAX_MADE, f"has {taps} places in each of {count} windows")
    strides = _steps(sizes)
    at = np.tensordot(strides, np.stack(places), 1).reshape(taps, count)
    valid = inside.reshape(taps, count)
    rows = c.reshape(x, (planes, math.prod(sizes)))
    entries = c.constant(np.where(valid, at, 0).astype(np.int32), "places")
    if not valid.all() and not rows.type.dtype.is_float:
        rows = c.cast(rows, DType.INT32)  # which has a number below all others
    found = c.add(Gather(1, from_end=False), rows, entries)
    if not valid.all():
        kind = rows.type.dtype
        lowest = -np.inf if kind.is_float else np.iinfo(np.int32).min
        found = c.add(Where(), c.constant(valid, "inside"), found, c.scalar(lowest, kind))
    best = c.add(ArgMax(1, keepdims=False), found)
    if c.version >= 8 and c.flag("storage_order"):
        strides = _steps(sizes[::-1])[::-1]
        at = np.tensordot(strides, np.stack(places), 1).reshape(taps, count)
    # A place is that of the window's first element plus a step for each tap.
    first, step = at[0], at[:, 0] - at[0, 0]
    moved = c.add(Gather(0), c.constant(step.astype(np.int32), "taps"), best)
    plane = np.arange(planes)[:, None] * math.prod(sizes)
    y = c.add(ew.Add(), moved, c.constant((first + plane).astype(np.int32), "firsts"))
    return c.cast(c.reshape(y, (*dims[:2], *out)), DType.INT64)


def _steps(sizes: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis, row by row."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _taps(
    c: Context, w: WindowAttributes, sizes: Sequence[int]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Place along each axis, [taps, out...], of each element of each window; which are inside."""
    begins, ends, over = pool_pads(c, w, signed=True)
    axes, places = len(sizes), []
    inside = np.ones((), np.bool_)
    offsets = np.indices(w.kernel).reshape(axes, -1)
    for axis, size in enumerate(sizes):
        padded = size + begins[axis] + ends[axis] + over[axis]
        count = (padded - w.extents[axis]) // w.strides[axis] + 1
        c.require(count >= 1, f"has windows of {w.extents} for {c.x.type}")
        shape = [1] * axes
        shape[axis] = count
        starts = (np.arange(count) * w.strides[axis] - begins[axis]).reshape(shape)
        place = starts + (offsets[axis] * w.dilations[axis]).reshape(-1, *[1] * axes)
        low, high = max(-begins[axis], 0), size - max(-ends[axis], 0)
        inside = inside & (place >= low) & (place < high)
        places.append(place)
    return [np.broadcast_to(place, inside.shape) for place in places], inside


@operator("MaxUnpool", 9, 11, 22, inputs=(2, 3))
def max_unpool(c: Context) -> Value:
    """Elements at the places that MaxPool gave, zeros elsewhere"""
    w, x, places = window(c, dilated=False, most_axes=8), c.x, c.value(1)
    c.require(places.type.dims == x.type.dims, f"has the places {places.type} for {x.type}")
    good = places.type.dtype in (DType.INT32, DType.INT64)
    c.require(good, f"has places of type {places.type}")
    axes, dims = len(w.kernel), x.type.dims
    whole = [
        (dims[2 + a] - 1) * w.strides[a] + w.kernel[a] - w.pads[a] - w.pads[a + axes]
        for a in range(axes)
    ]
    full, count = (*dims[:2], *whole), x.type.size
    c.require(min(full) >= 0 and math.prod(full) < 1 << 31, f"gives the shape {list(full)}")
    zeros = c.add(Expand((math.prod(full),)), c.scalar(0, x.type.dtype))
    at = c.reshape(c.cast(places, DType.INT32), (count, 1))
    found = c.add(ScatterND(from_end=False), zeros, at, c.reshape(x, (count,)))
    y = c.reshape(found, full)
    if c.optional(2) is None:
        return y
    wanted = c.ints(2, "output_shape")
    c.require(len(wanted) == len(full) and min(wanted) >= 0, f"has the output_shape {wanted}")
    y = c.add(Slice((0,) * len(full), tuple(wanted)), y)
    more = [max(a - b, 0) for a, b in zip(wanted, full, strict=True)]
    return c.add(Pad((*[0] * len(full), *more)), y) if any(more) else y
