"""Pooling over windows and over whole planes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import WindowAttributes, pool_pads, window, window_sums
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.common.windows import reduce_windows
from vknn.ops.movement.shape import Pad
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from vknn.ops.reduction import ReduceL1, ReduceL2, ReduceSum


@operator("MaxPool", 1, 8, 10, 11, 12, 22, outputs=(1, 2))
def max_pool(c: Context) -> Value:
    """The largest element of each window"""
    w = window(c, dilated=c.version >= 10)
    begins, ends, over = pool_pads(c, w)
    if c.wants(1):
        c.refuse("the output Indices")
    reach = tuple(e + o for e, o in zip(ends, over, strict=True))
    return c.add(MaxPool(w.kernel, w.strides, (*begins, *reach), w.dilations), c.x)


@operator("AveragePool", 1, 7, 10, 11, 19, 22)
def average_pool(c: Context) -> Value:
    """The mean of each window, with or without its padding"""
    return pooled_mean(c, c.version >= 7 and c.flag("count_include_pad"))


def pooled_mean(c: Context, pads: bool) -> Value:
    """The mean of each window of the first input; ``pads``: its padding counts."""
    w = window(c, dilated=c.version >= 19)
    begins, ends, over = pool_pads(c, w)
    x = c.x
    if pads and any((*begins, *ends)) and any(over):
        x = c.add(Pad((0, 0, *begins, 0, 0, *ends)), x)
        begins = ends = (0,) * len(begins)
        pads = False
    reach = tuple(e + o for e, o in zip(ends, over, strict=True))
    if all(d == 1 for d in w.dilations):
        return c.add(AveragePool(w.kernel, w.strides, (*begins, *reach), pads), x)
    return _dilated_mean(c, x, w, (*begins, *reach), pads)


def _dilated_mean(
    c: Context, x: Value, w: WindowAttributes, pads: Sequence[int], count_pads: bool
) -> Value:
    axes = len(w.kernel)
    total = window_sums(c, x, w, pads[:axes], pads[axes:])
    ones = np.ones((1, 1, *x.type.dims[2:]), np.float64)
    outside = 1.0 if count_pads else 0.0
    counts = reduce_windows(ones, np.add, w.kernel, w.strides, pads, w.dilations, outside)
    return c.add(ew.Div(), total, c.constant(counts.astype(x.type.dtype.numpy), "counts"))


@operator("LpPool", 1, 2, 11, 18, 22)
def lp_pool(c: Context) -> Value:
    """The p-norm of each window"""
    w = window(c, dilated=c.version >= 18)
    begins, ends, over = pool_pads(c, w)
    power = c.float("p", 2.0) if c.version == 1 else c.int("p", 2)
    reach = tuple(e + o for e, o in zip(ends, over, strict=True))
    return _rooted(c, window_sums(c, _powers(c, power), w, begins, reach), power)


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
