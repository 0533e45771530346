"""Pooling over windows and over whole planes."""

from __future__ import annotations

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
from vknn.formats.onnx.layers.unpooling import largest_places
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.common.windows import reduce_windows
from vknn.ops.movement.shape import Pad
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from vknn.ops.reduction import ReduceL1, ReduceL2, ReduceSum

#: Spatial axes of a pool.
_MOST_AXES = 8


@operator("MaxPool", 1, 8, 10, 11, 12, 22, outputs=(1, 2))
def max_pool(c: Context) -> tuple[Value, ...]:
    """The largest element of each window, and its place in the whole tensor"""
    w = window(c, dilated=c.version >= 10, most_axes=_MOST_AXES, negative=True)
    found = pooled_maximum(c, c.x, w)
    return (found, largest_places(c, w)) if c.wants(1) else (found,)


def pooled_maximum(c: Context, x: Value, w: WindowAttributes) -> Value:
    """The largest element of each window of ``x``."""
    x, w = cropped(c, x, w, signed=True)

    def pooled(x: Value, w: WindowAttributes) -> Value:
        return c.add(MaxPool(w.kernel, w.strides, w.pads, w.dilations), x)

    return over_axes(c, x, w, _reach(c, w, x), pooled)


def _reach(c: Context, w: WindowAttributes, x: Value) -> tuple[int, ...]:
    """Pads with what windows reach beyond them."""
    begins, ends, over = pool_pads(c, w, x.type.dims[2:])
    return (*begins, *(e + o for e, o in zip(ends, over, strict=True)))


@operator("AveragePool", 1, 7, 10, 11, 19, 22)
def average_pool(c: Context) -> Value:
    """The mean of each window, with or without its padding"""
    return pooled_mean(c, c.version >= 7 and c.flag("count_include_pad"))


def pooled_mean(c: Context, count_pads: bool) -> Value:
    """The mean of each window of the first input; ``count_pads``: its padding counts."""
    w = window(c, dilated=c.version >= 19, most_axes=_MOST_AXES, negative=True)
    x, w = cropped(c, c.x, w, signed=True)
    begins, ends, over = pool_pads(c, w, x.type.dims[2:])
    if count_pads and any((*begins, *ends)) and any(over):
        x = c.add(Pad((0, 0, *begins, 0, 0, *ends)), x)
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
    ones = np.ones((1, 1, *x.type.dims[2:]), np.float64)
    outside = 1.0 if count_pads else 0.0
    counts = reduce_windows(ones, np.add, w.kernel, w.strides, w.pads, w.dilations, outside)
    return c.add(ew.Div(), total, c.constant(counts.astype(x.type.dtype.numpy), "counts"))


@operator("LpPool", 1, 2, 11, 18, 22)
def lp_pool(c: Context) -> Value:
    """The p-norm of each window"""
    w = window(c, dilated=c.version >= 18, most_axes=_MOST_AXES, negative=True)
    power = c.float("p", 2.0) if c.version == 1 else c.int("p", 2)
    x, w = cropped(c, _powers(c, power), w, signed=True)
    total = over_axes(c, x, w, _reach(c, w, x), lambda x, w: window_sums(c, x, w))
    return _rooted(c, total, power)


@operator("GlobalLpPool", 1, 2, 22)
def global_lp_pool(c: Context) -> Value:
    """The p-norm of each plane"""
    power = c.float("p", 2.0) if c.version == 1 else c.int("p", 2)
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
    return c.x if c.rank == 2 else c.add(GlobalAveragePool(), c.x)


@operator("GlobalMaxPool", 1, 22)
def global_max_pool(c: Context) -> Value:
    """The largest element of each plane"""
    return c.x if c.rank == 2 else c.add(GlobalMaxPool(), c.x)
