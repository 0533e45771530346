"""Reductions over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.axes import axis_set, int_values
from vknn.formats.onnx.registry import Convert, operator
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops import reduction as red
from vknn.ops.movement.shape import Expand, Identity

#: From these versions on axes are an input.
_BY_INPUT, _SUM_BY_INPUT = 18, 13
#: Of floats alone in the graph; integers are computed in float64.
_FLOATS_ONLY = (red.ReduceL2, red.ReduceLogSum, red.ReduceLogSumExp)
_EXTREMES = (red.ReduceMax, red.ReduceMin)
#: Integers whose sums have room in others, so that the mean of large ones is one of them.
_WIDE = {DType.INT32: DType.INT64, DType.UINT32: DType.UINT64}
#: What is left of a reduction where there is nothing to reduce over.
_ELEMENTWISE: dict[type[Op], tuple[type[Op], ...]] = {
    red.ReduceSumSquare: (ew.Square,), red.ReduceL1: (ew.Abs,), red.ReduceL2: (ew.Abs,),
    red.ReduceLogSum: (ew.Log,),
}  # fmt: skip


def _reduction(op: type[red.Reduction]) -> Convert:
    by_input = _SUM_BY_INPUT if op is red.ReduceSum else _BY_INPUT

    def convert(c: Context) -> Value:
        axes = int_values(c, "axes", 1, by_input)
        if not axes and c.version >= by_input and c.flag("noop_with_empty_axes"):
            return _unreduced(c, op)
        places = axis_set(c, axes or range(c.rank), c.rank)
        return reduced(c, c.x, op, places, c.flag("keepdims", True))

    convert.__doc__ = op.__doc__
    return convert


def _unreduced(c: Context, op: type[red.Reduction]) -> Value:
    """Each element reduced by itself."""
    found, kind = c.x, c.x.type.dtype
    for step in _ELEMENTWISE.get(op, ()):
        wide = c.cast(found, kind if kind.is_float or step is not ew.Log else DType.FLOAT64)
        found = c.cast(c.add(step(), wide), kind)
    return c.add(Identity(), found)


def reduced(
    c: Context, x: Value, op: type[red.Reduction], axes: tuple[int, ...], keepdims: bool
) -> Value:
    """A reduction over ``axes`` of a value of any number type."""
    kind, dims = x.type.dtype, x.type.dims
    if op in (*_EXTREMES, red.ReduceMean) and 0 in (dims[a] for a in axes):
        return _of_nothing(c, x, op, axes, keepdims)
    if not axes:
        c.inputs = (x, *c.inputs[1:])
        return _unreduced(c, op)
    if op is red.ReduceMean and not kind.is_float:
        count = math.prod(dims[a] for a in axes)
        total = reduced(c, c.cast(x, _WIDE.get(kind, kind)), red.ReduceSum, axes, keepdims)
        return c.cast(c.add(ew.Div(), total, c.scalar(max(count, 1), total.type.dtype)), kind)
    made: Any = op
    if op in _FLOATS_ONLY and not kind.is_float:
        return c.cast(c.add(made(axes, keepdims), c.cast(x, DType.FLOAT64)), kind)
    return c.add(made(axes, keepdims), x)


def _of_nothing(
    c: Context, x: Value, op: type[red.Reduction], axes: tuple[int, ...], keepdims: bool
) -> Value:
    """The neutral element: the lowest or highest value of the type; for a mean 0.

    ONNX has no mean of nothing; onnxruntime's is 0, of floats too.
    """
    kind = x.type.dtype
    largest = op is red.ReduceMin
    number: Any = float("inf") if largest else float("-inf")
    if op is red.ReduceMean:
        number = 0
    elif kind is DType.BOOL:
        number = largest
    elif not kind.is_float:
        info = np.iinfo(kind.numpy)
        number = info.max if largest else info.min
    shape = red.reduced_shape(x.type.dims, axes, keepdims)
    return c.add(Expand(tuple(d or 0 for d in shape)), c.constant(np.asarray(number, kind.numpy)))


operator("ReduceSum", 1, 11, 13, inputs=(1, 2))(_reduction(red.ReduceSum))
for _extreme in _EXTREMES:
    operator(_extreme.__name__, 1, 11, 12, 13, 18, 20, inputs=(1, 2))(_reduction(_extreme))
for _type in (red.ReduceMean, red.ReduceProd, red.ReduceSumSquare, red.ReduceL1, red.ReduceL2):
    operator(_type.__name__, 1, 11, 13, 18, inputs=(1, 2))(_reduction(_type))
for _log in (red.ReduceLogSum, red.ReduceLogSumExp):
    operator(_log.__name__, 1, 11, 13, 18, 28, inputs=(1, 2))(_reduction(_log))
