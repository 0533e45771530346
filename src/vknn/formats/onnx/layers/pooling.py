"""Pooling over windows and over whole planes, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import (
    WindowAttributes,
    cropped,
    over_axes,
    pool_pads,
    window,
    window_sums,
)
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.common.windows import reduce_windows
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax
from vknn.ops.movement.shape import Expand, Pad, Slice
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from vknn.ops.reduction import ReduceL1, ReduceL2, ReduceSum


@operator("MaxPool", 1, 8, 10, 11, 12, 22, outputs=(1, 2))
def max_pool(c: Context) -> tuple[Value, ...]:
    """The largest element of each window, and its place in the whole tensor"""
    w = window(c, dilated=c.version >= 10)
    found = pooled_maximum(c, c.x, w)
    return (found, largest_places(c, w)) if c.wants(1) else (found,)


def pooled_maximum(c: Context, x: Value, w: WindowAttributes) -> Value:
    """The largest element of each window of ``x``."""
    x, w = cropped(c, x, w, signed=True)

    def pooled(x: Value, w: WindowAttributes) -> Value:
        return c.add(MaxPool(w.kernel, w.strides, w.pads, w.dilations), x)

    return over_axes(c, x, w, reach(c, w, x), pooled)


def reach(c: Context, w: WindowAttributes, x: Value) -> tuple[int, ...]:
    """Pads with what windows reach beyond them."""
    begins, ends, over = pool_pads(c, w, x.type.dims[2:])
    return (*begins, *(e + o for e, o in zip(ends, over, strict=True)))


def largest_places(c: Context, w: WindowAttributes) -> Value:
    """int64 places of the largest elements of windows in the whole tensor; of equal ones the first.

    Elements are counted row by row; with ``storage_order`` 1 those of a channel column by column.
    """
    dims, axes = c.x.type.dims, len(w.kernel)
    cut = [max(-pad, 0) for pad in w.resolved(dims[2:], signed=True)[:axes]]
    x, w = cropped(c, c.x, w, signed=True)
    pads = reach(c, w, x)
    read = elements(c, x, w, pads)
    planes, taps, out = dims[0] * dims[1], math.prod(w.kernel), read.type.dims[2 + axes :]
    best = c.add(ArgMax(1, keepdims=False), c.reshape(read, (planes, taps, math.prod(out))))
    order = c.int("storage_order", 0) if c.version >= 8 else 0
    c.require(order in (0, 1), f"has the storage_order {order}, which is 0 or 1")
    by_column = order == 1
    strides = _steps(dims[:1:-1])[::-1] if by_column else _steps(dims[2:])
    # A place is that of the window's first element plus a step for each tap.
    starts = [
        np.arange(n) * s - p + o for n, s, p, o in zip(out, w.strides, pads, cut, strict=False)
    ]
    steps = [np.arange(n) * d for n, d in zip(w.kernel, w.dilations, strict=True)]
    first, step = (_outer_sums(parts, strides) for parts in (starts, steps))
    moved = c.add(Gather(0), c.constant(step, "taps"), best)
    plane = np.arange(planes, dtype=np.int32)[:, None] * np.int32(math.prod(dims[2:]))
    y = c.add(ew.Add(), c.add(ew.Add(), moved, c.constant(first, "firsts")),
              c.constant(plane, "planes"))  # fmt: skip
    return c.cast(c.reshape(y, (*dims[:2], *out)), DType.INT64)


def elements(c: Context, x: Value, w: WindowAttributes, pads: Sequence[int]) -> Value:
    """Elements that windows read: [N, C, taps along each axis, windows along each axis]."""
    axes = len(w.kernel)
    if any(pads):
        # Integers become wider ones, which have a number below all of them.
        x = x if x.type.dtype.is_float else c.cast(x, DType.INT32)
        lowest = -math.inf if x.type.dtype.is_float else float(np.iinfo(np.int32).min)
        around = (0, 0, *pads[:axes], 0, 0, *pads[axes:])
        x = c.add(Pad(around, "constant", lowest), x)
    for axis in reversed(range(axes)):
        count = (x.type.dims[2 + axis] - w.extents[axis]) // w.strides[axis] + 1
        c.makeable(w.kernel[axis] * max(count, 0))
        taps, starts = np.arange(w.kernel[axis]), np.arange(max(count, 0))
        places = taps[:, None] * w.dilations[axis] + starts * w.strides[axis]
        read = c.constant(places.astype(np.int32), f"places{axis}")
        x = c.add(Gather(2 + axis, from_end=False), x, read)
    return c.transpose(x, (0, 1, *range(2, 2 + 2 * axes, 2), *range(3, 2 + 2 * axes, 2)))


def _steps(sizes: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis, row by row."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _outer_sums(parts: Sequence[np.ndarray], strides: Sequence[int]) -> np.ndarray:
    """Sums of places along each axis times its stride, for all of their combinations, int32."""
    total = np.zeros(1, np.int64)
    for part, stride in zip(parts, strides, strict=True):
        total = (total[:, None] + part * stride).reshape(-1)
    return total.astype(np.int32)


@operator("MaxUnpool", 9, 11, 22, inputs=(2, 3))
def max_unpool(c: Context) -> Value:
    """Elements at the places that MaxPool gave, zeros elsewhere"""
    w, x, places = window(c, dilated=False, spreads=True), c.x, c.value(1)
    c.require(places.type.dims == x.type.dims, f"has the places {places.type} for {x.type}")
    axes, dims = len(w.kernel), x.type.dims
    whole = [
        (dims[2 + a] - 1) * w.strides[a] + w.kernel[a] - w.pads[a] - w.pads[a + axes]
        for a in range(axes)
    ]
    full, count = (*dims[:2], *whole), x.type.size
    c.require(min(full) >= 0 and math.prod(full) < 1 << 31, f"gives the shape {list(full)}")
    zeros = c.add(Expand((math.prod(full),)), c.scalar(0, x.type.dtype))
    at = c.reshape(c.indices(1, math.prod(full), from_end=False), (count, 1))
    found = c.add(ScatterND(from_end=False), zeros, at, c.reshape(x, (count,)))
    y = c.reshape(found, full)
    if c.optional(2) is None:
        return y
    wanted = c.ints(2, "output_shape")
    c.require(len(wanted) == len(full) and min(wanted) >= 0, f"has the output_shape {wanted}")
    y = c.add(Slice((0,) * len(full), tuple(wanted)), y)
    more = [max(a - b, 0) for a, b in zip(wanted, full, strict=True)]
    return c.add(Pad((*[0] * len(full), *more)), y) if any(more) else y


@operator("AveragePool", 1, 7, 10, 11, 19, 22)
def average_pool(c: Context) -> Value:
    """The mean of each window, with or without its padding"""
    return pooled_mean(c, c.version >= 7 and c.flag("count_include_pad"))


def pooled_mean(c: Context, count_pads: bool, whole: bool = False) -> Value:
    """The mean of each window of the first input; ``count_pads``: its padding counts.

    ``whole``: then what windows reach beyond the padding counts, too.
    """
    w = window(c, dilated=c.version >= 19)
    x, w = cropped(c, c.x, w, signed=True)
    begins, ends, over = pool_pads(c, w, x.type.dims[2:])
    if count_pads and any(over) and not whole:  # what windows reach beyond it does not count
        x = c.add(Pad((0, 0, *begins, 0, 0, *ends)), x) if any((*begins, *ends)) else x
        begins = ends = (0,) * len(begins)
        count_pads = False
    reach = (*begins, *(e + o for e, o in zip(ends, over, strict=True)))

    def mean(x: Value, w: WindowAttributes) -> Value:
        if all(d == 1 for d in w.dilations):
            return c.add(AveragePool(w.kernel, w.strides, w.pads, count_pads), x)
        return _dilated_mean(c, x, w, count_pads)

    return over_axes(c, x, w, reach, mean)


def _dilated_mean(c: Context, x: Value, w: WindowAttributes, count_pads: bool) -> Value:
    total = window_sums(c, x, w)
    if count_pads:
        return c.add(ew.Div(), total, c.scalar(math.prod(w.kernel), x.type.dtype))
    ones = np.ones((1, 1, *x.type.dims[2:]), np.float64)
    counts = reduce_windows(ones, np.add, w.kernel, w.strides, w.pads, w.dilations, 0.0)
    return c.add(ew.Div(), total, c.constant(counts.astype(x.type.dtype.numpy), "counts"))


@operator("LpPool", 1, 2, 11, 18, 22)
def lp_pool(c: Context) -> Value:
    """The p-norm of each window"""
    w = window(c, dilated=c.version >= 18)
    power = c.float("p", 2.0) if c.version == 1 else c.int("p", 2)
    x, w = cropped(c, _powers(c, power), w, signed=True)
    total = over_axes(c, x, w, reach(c, w, x), lambda x, w: window_sums(c, x, w))
    return _rooted(c, total, power)


@operator("GlobalLpPool", 1, 2, 22)
def global_lp_pool(c: Context) -> Value:
    """The p-norm of each plane"""
    power = c.float("p", 2.0) if c.version == 1 else c.int("p", 2)
    c.require(c.rank >= 3, f"takes planes, not {c.x.type}")
    axes = tuple(range(2, c.rank))
    if power in (1, 2):
        return c.add((ReduceL1 if power == 1 else ReduceL2)(axes, True), c.x)
    return _rooted(c, c.add(ReduceSum(axes, True), _powers(c, power)), power)


def _powers(c: Context, power: float) -> Value:
    """|x| to a power."""
    if power == 2:
        return c.add(ew.Square(), c.x)
    size = c.add(ew.Abs(), c.x)
    return size if power == 1 else c.add(ew.Pow(), size, c.scalar(power, c.x.type.dtype))


def _rooted(c: Context, total: Value, power: float) -> Value:
    c.require(power > 0, f"has the power {power}")
    if power == 1:
        return total
    if power == 2:
        return c.add(ew.Sqrt(), total)
    return c.add(ew.Pow(), total, c.scalar(1 / power, total.type.dtype))


@operator("GlobalAveragePool", 1, 22)
def global_average_pool(c: Context) -> Value:
    """The mean of each plane"""
    c.require(c.rank >= 3, f"takes planes, not {c.x.type}")
    return c.add(GlobalAveragePool(), c.x)


@operator("GlobalMaxPool", 1, 22)
def global_max_pool(c: Context) -> Value:
    """The largest element of each plane"""
    c.require(c.rank >= 3, f"takes planes, not {c.x.type}")
    return c.add(GlobalMaxPool(), c.x)
