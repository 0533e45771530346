"""Reductions, CUMSUM and softmax on floats and on integers without scales."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops import reduction as rd
from vknn.ops.movement.shape import Expand

_REDUCTIONS: dict[str, type[rd.Reduction]] = {
    "SUM": rd.ReduceSum,
    "REDUCE_PROD": rd.ReduceProd,
}
_EXTREMES: dict[str, type[rd.Reduction]] = {
    "REDUCE_MAX": rd.ReduceMax,
    "REDUCE_MIN": rd.ReduceMin,
    "REDUCE_ANY": rd.ReduceMax,
    "REDUCE_ALL": rd.ReduceMin,
}


def axes_of(c: Context) -> tuple[int, ...]:
    """Axes in the second input, sorted; the file's may repeat and count from the end."""
    rank = c.x.type.rank
    if rank == 0:
        return ()
    return tuple(sorted({c.axis(a, rank) for a in c.ints(1, "the axes")}))


def reduce(
    c: Context, kind: Callable[[tuple[int, ...], bool], rd.Reduction], x: Value | None = None
) -> Value:
    """``x`` (default: the first input) reduced over the axes; without axes ``x`` itself."""
    x = x or c.x
    axes = axes_of(c)
    return c.add(kind(axes, bool(c.options["keep_dims"])), x) if axes else x


@operator(*_REDUCTIONS, inputs=2)
def reduction(c: Context) -> Value:
    """SUM and REDUCE_PROD over axes; integers wrap around."""
    dtype = c.x.type.dtype
    if c.operator.code == "REDUCE_PROD" and dtype in (DType.INT8, DType.UINT8, DType.INT16):
        wide = c.add(ew.Cast(DType.INT32), c.x)
        return c.add(ew.Cast(dtype), reduce(c, rd.ReduceProd, wide))
    return reduce(c, _REDUCTIONS[c.operator.code])


@operator(*_EXTREMES, inputs=2, takes_quantized=True)
def extreme(c: Context) -> Value:
    """Maximum, minimum, REDUCE_ANY and REDUCE_ALL over axes; quantized tensors keep their scale.

    Over no elements the result is the lowest (for REDUCE_MIN and REDUCE_ALL the highest) of the
    type.
    """
    axes, dims, dtype = axes_of(c), c.x.type.dims, c.x.type.dtype
    if all(dims[a] for a in axes):
        return reduce(c, _EXTREMES[c.operator.code])
    if dtype is DType.BOOL:
        return empty_reduction(c, axes, c.operator.code == "REDUCE_ALL")
    info = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return empty_reduction(c, axes, info.max if c.operator.code == "REDUCE_MIN" else info.min)


def empty_reduction(c: Context, axes: tuple[int, ...], value: float) -> Value:
    """Result of a reduction over no elements: ``value`` everywhere."""
    dims, keep = c.x.type.dims, c.options["keep_dims"]
    left = tuple(1 if a in axes else d for a, d in enumerate(dims) if keep or a not in axes)
    return c.add(Expand(left), c.constant(np.array(value, c.target().dtype.numpy), "value"))


@operator("MEAN", inputs=2)
def mean(c: Context) -> Value:
    """Mean over axes; quotients of integers are truncated, pixels of images are added in order."""
    x = c.x.type
    if x.dtype.is_float:
        images = x.rank == 4 and x.size > 0 and axes_of(c) == (1, 2)
        return reduce(c, functools.partial(rd.ReduceMean, in_order=images))
    total = reduce(c, rd.ReduceSum)
    count = max(1, c.x.type.size // max(1, total.type.size))
    return c.add(ew.Div(), total, c.scalar(count, c.x.type.dtype))


@operator("CUMSUM", inputs=2)
def cumulative_sum(c: Context) -> Value:
    """Cumulative sum along an axis; integers wrap around."""
    axis = c.axis(c.number(1, "the axis"), c.x.type.rank)
    op = rd.CumSum(axis, bool(c.options["exclusive"]), bool(c.options["reverse"]))
    return c.add(op, c.x)


@operator("SOFTMAX")
def softmax(c: Context) -> Value:
    """Softmax of beta * x along the last axis."""
    beta = c.options["beta"]
    x = c.x if beta == 1.0 else c.add(ew.Mul(), c.x, c.scalar(beta))
    return _last_axis(c, rd.Softmax(-1), x)


@operator("LOG_SOFTMAX")
def log_softmax(c: Context) -> Value:
    """Logarithm of softmax along the last axis."""
    return _last_axis(c, rd.LogSoftmax(-1), c.x)


def _last_axis(c: Context, op: Op, x: Value) -> Value:
    if x.type.rank:
        return c.add(op, x)
    return c.reshape(c.add(op, c.reshape(x, (1,))), ())
