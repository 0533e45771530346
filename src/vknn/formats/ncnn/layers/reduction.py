"""Reduction, CumulativeSum, ArgMax, StatisticsPooling and GLU."""

from __future__ import annotations

import math

from vknn.formats.ncnn.context import Context, axis_of, rank, shape
from vknn.formats.ncnn.layers.elementwise.arithmetic import scaled
from vknn.formats.ncnn.params import P, Params, param, require, require_axes
from vknn.formats.ncnn.registry import layer
from vknn.graph import DType, Value, attributes
from vknn.ops.elementwise import Cast
from vknn.ops.elementwise.glu import Glu
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.normalization import MeanVarianceNormalization
from vknn.ops.reduction import (
    CumSum,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)

#: Parameter operation -> op.
_REDUCTIONS: tuple[type[Reduction], ...] = (
    ReduceSum,
    ReduceL1,
    ReduceSumSquare,
    ReduceMean,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
)


@attributes
class ReductionParams(Params):
    """Parameters of Reduction."""

    operation: int = param(0)
    reduce_all: int = param(1, 1)
    coeff: float = param(2, 1.0)
    axes: tuple[int, ...] = param(3, ())
    keepdims: int = param(4)
    fixbug0: int = param(5)

    def check(self) -> None:
        require(0 <= self.operation < len(_REDUCTIONS), f"unknown operation {self.operation}")
        require_axes(self.axes)
        require(
            self.fixbug0 != 0 or not self.axes,
            "axes need parameter 5 (fixbug0): regenerate the file",
        )


@layer("Reduction", params=ReductionParams)
def reduction(c: Context[ReductionParams]) -> Value:
    """Reduction over all axes or some, times ``coeff``; without axes left it is a blob of one.

    ncnn differs: a 1-D blob is reduced whatever axes are; LogSumExp overflows where an exponential
    does, here it does not; a maximum is never below -FLT_MAX and a minimum never above FLT_MAX.
    """
    p, n = c.params, rank(c.x)
    axes = {axis_of(c, c.x, a) for a in p.axes} if n > 1 else set()
    if p.reduce_all or n == 1:
        axes = set(range(1, n + 1))
    keep = bool(p.keepdims)
    y = c.add(_REDUCTIONS[p.operation](tuple(sorted(axes)), keep), c.x)
    y = c.reshape(y, (1, 1)) if rank(y) == 0 else y
    return scaled(c, y, p.coeff)


@attributes
class AxisParams(Params):
    """Parameters of a layer that works along an axis."""

    axis: int = param(0)


def _axis(c: Context[AxisParams]) -> int:
    """Axis of the value; the only one of 1-D blobs, whatever the parameter is."""
    return 1 if rank(c.x) == 1 else axis_of(c, c.x, c.params.axis)


@layer("CumulativeSum", params=AxisParams)
def cumulative_sum(c: Context[AxisParams]) -> Value:
    """Sums of all elements up to each along an axis."""
    return c.add(CumSum(_axis(c)), c.x)


@layer("GLU", params=AxisParams)
def glu(c: Context[AxisParams]) -> Value:
    """Gated linear unit: first half times sigmoid of the second; an odd last element is dropped."""
    axis = _axis(c)
    size = c.x.type.dims[axis]
    c.require(size >= 2, f"cannot halve an axis of size {size}")
    return c.add(Glu(axis), c.x)


@attributes
class ArgMaxParams(Params):
    """Parameters of ArgMax."""

    out_max_val: int = param(0)
    topk: int = param(1, 1)

    def check(self) -> None:
        require(self.topk > 0, f"topk {self.topk} must be positive")


@layer("ArgMax", params=ArgMaxParams)
def arg_max(c: Context[ArgMaxParams]) -> Value:
    """Indices (as floats) of the ``topk`` largest elements of the blob, a row below their values.

    Of equal elements the one with the higher index comes first.

    ncnn differs: it counts the unused bytes at the end of channels as elements.
    """
    p, total = c.params, c.x.type.size
    c.require(p.topk <= total, f"topk {p.topk} is more than the blob's {total} elements")
    flat = c.reshape(c.x, (1, total))
    if total > 1:  # the op puts the lower index of equal elements first
        flat = c.add(Slice((-1,), (-total - 1,), (1,), (-1,)), flat)
    values, places = c.add_many(TopK(axis=1, k=p.topk), flat, parts=("values", "indices"))
    mirrored = c.add(Cast(DType.FLOAT32), places)
    indices = scaled(c, mirrored, -1.0, float(total - 1))
    row = c.reshape(indices, (1, 1, p.topk))
    if not p.out_max_val:
        return row
    return c.add(Concat(axis=1), c.reshape(values, (1, 1, p.topk)), row)


@attributes
class StatisticsParams(Params):
    """Parameters of StatisticsPooling."""

    include_stddev: int = param(0)


@layer("StatisticsPooling", params=StatisticsParams)
def statistics_pooling(c: Context[StatisticsParams]) -> Value:
    """Mean of each channel, then standard deviation of each; 1-D and 2-D blobs are one channel."""
    x = one_channel(c, c.x)
    axes = tuple(range(2, x.type.rank))
    mean = c.add(ReduceMean(axes, False), x)
    if not c.params.include_stddev:
        return mean
    centered = c.add(MeanVarianceNormalization(axes, normalize_variance=False), x)
    root = c.add(ReduceL2(axes, False), centered)
    count = math.prod(shape(x)[1:])
    return c.add(Concat(axis=1), mean, scaled(c, root, 1.0 / math.sqrt(count)))


def one_channel(c: Context[P], x: Value) -> Value:
    """A blob of one or two axes as an image of one channel; others unchanged."""
    return x if rank(x) >= 3 else c.reshape(x, (1, *(1,) * (3 - rank(x)), *shape(x)))
