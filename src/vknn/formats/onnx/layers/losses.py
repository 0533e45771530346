"""Losses, which some networks keep as outputs."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.along_axis import flat_places
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.gather import Bounded, Gather
from vknn.ops.reduction import LogSoftmax, ReduceSum

_REDUCTIONS = ("none", "mean", "sum")


@operator("NegativeLogLikelihoodLoss", 12, 13, 22, inputs=(2, 3))
def negative_log_likelihood_loss(c: Context) -> Value:
    """-x at the target class times the class' weight"""
    return _loss(c, c.x)


@operator("SoftmaxCrossEntropyLoss", 12, 13, inputs=(2, 3), outputs=(1, 2))
def softmax_cross_entropy_loss(c: Context) -> tuple[Value, ...]:
    """The same of the logarithm of softmax, which is the second output"""
    logs = c.add(LogSoftmax(1), c.x)
    return _loss(c, logs), logs


def _loss(c: Context, x: Value) -> Value:
    reduction = c.text("reduction", "mean", _REDUCTIONS)
    ignored, kind, target = c.int("ignore_index", None), x.type.dtype, c.value(1)
    dims = x.type.dims
    fits = len(dims) >= 2 and target.type.dims == (dims[0], *dims[2:])
    c.require(fits, f"has the targets {target.type} for {x.type}")
    c.require(dims[1] > 0 or not target.type.size, f"has no classes: {x.type}")
    by_class = c.optional(2)
    suits = by_class is None or by_class.type.dims == (dims[1],)
    c.require(suits, f"has the weights {by_class and by_class.type} for {dims[1]} classes")
    keep: Value | None = None
    bounds = np.iinfo(target.type.dtype.numpy)
    if ignored is not None and bounds.min <= ignored <= bounds.max:
        skipped = c.add(Equal(), target, c.scalar(ignored, target.type.dtype))
        zero, one = c.scalar(0, kind), c.scalar(1, kind)
        keep = c.add(Where(), skipped, zero, one)
        target = c.add(Where(), skipped, c.scalar(0, target.type.dtype), target)
    places = c.cast(c.add(Bounded(0, dims[1] - 1), target), DType.INT32)
    column = c.reshape(places, (dims[0], 1, *dims[2:]))
    flat = flat_places(c, dims, column, 1)
    picked = c.add(Gather(0, from_end=False), c.reshape(x, (x.type.size,)), flat)
    loss = c.add(ew.Neg(), c.reshape(picked, target.type.dims))
    weights = keep
    if by_class is not None:
        weights = c.add(Gather(0, from_end=False), by_class, places)
        weights = weights if keep is None else c.add(ew.Mul(), weights, keep)
    if weights is not None:
        loss = c.add(ew.Mul(), loss, weights)
    if reduction == "none":
        return loss
    total = c.add(ReduceSum(None, False), loss)
    if reduction == "sum":
        return total
    if weights is None:
        return c.add(ew.Div(), total, c.scalar(max(target.type.size, 1), kind))
    return c.add(ew.Div(), total, c.add(ReduceSum(None, False), weights))
