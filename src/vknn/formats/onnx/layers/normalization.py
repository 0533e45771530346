"""Normalisations and softmax."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.axes import axis_set
from vknn.formats.onnx.registry import Convert, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops import normalization as norm
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.topk import ArgMax
from vknn.ops.movement.shape import Expand, Identity
from vknn.ops.reduction import LogSoftmax, ReduceL1, ReduceL2, ReduceMean, Softmax


@operator("BatchNormalization", 1, 6, 7, 9, 14, 15, inputs=5, outputs=(1, 5), like=(0, 3, 4))
def batch_normalization(c: Context) -> list[Value]:
    """(x - mean) / sqrt(var + epsilon) * scale + bias along axis 1"""
    epsilon, kind = c.float("epsilon", 1e-5), c.x.type.dtype
    values = [c.value(number) for number in range(5)]
    if any(v.type.dtype is not kind for v in values):
        values = [c.cast(v, DType.FLOAT32) for v in values]
    x, scale, bias, mean, var = values
    if x.type.rank == 1:  # one channel
        x = c.reshape(x, (x.type.size, 1))
    if c.version >= 14 and c.flag("training_mode"):
        outputs = len(c.node.outputs)
        c.require(outputs == 3, f"is in training mode and has {outputs} outputs, not 3")
        return _trained(c, (x, scale, bias, mean, var), epsilon, kind)
    if c.version < 9 and not c.flag("spatial", True):
        root = c.add(ew.Sqrt(), c.add(ew.Add(), var, c.scalar(epsilon, var.type.dtype)))
        scaled = c.add(ew.Div(), c.add(ew.Sub(), x, mean), root)
        return [c.cast(c.add(ew.Add(), c.add(ew.Mul(), scaled, scale), bias), kind)]
    found = c.add(norm.BatchNormalization(epsilon), x, scale, bias, mean, var)
    return [c.cast(c.reshape(found, c.x.type.dims), kind)]


def _trained(
    c: Context, values: tuple[Value, Value, Value, Value, Value], epsilon: float, kind: DType
) -> list[Value]:
    """Normalisation by the batch's own statistics, and these mixed into the running ones."""
    x, scale, bias, mean, var = values
    c.require(x.type.rank >= 2, f"takes no {x.type}")
    axes = (0, *range(2, x.type.rank))
    now = c.add(ReduceMean(axes, True), x)
    spread = c.add(ReduceMean(axes, True), c.add(ew.Square(), c.add(ew.Sub(), x, now)))
    flat = [c.reshape(v, (x.type.dims[1],)) for v in (now, spread)]
    found = c.add(norm.BatchNormalization(epsilon), x, scale, bias, *flat)
    found = c.cast(c.reshape(found, c.x.type.dims), kind)
    momentum, results = c.float("momentum", 0.9), [found]
    for number, (old, new) in enumerate(zip((mean, var), flat, strict=True)):
        old = c.add(ew.Mul(), old, c.scalar(momentum, old.type.dtype))
        new = c.add(ew.Mul(), new, c.scalar(1.0 - momentum, new.type.dtype))
        results.append(c.cast(c.add(ew.Add(), old, new), c.value(3 + number).type.dtype))
    return results


@operator("InstanceNormalization", 1, 6, 22, inputs=3)
def instance_normalization(c: Context) -> Value:
    """Each plane by its own mean and variance"""
    op = norm.InstanceNormalization(c.float("epsilon", 1e-5))
    return c.add(op, c.x, c.value(1), c.value(2))


@operator("GroupNormalization", 18, 21, inputs=3)
def group_normalization(c: Context) -> Value:
    """Groups of channels by their means and variances; scale and bias by group (18) or channel"""
    c.require(c.rank >= 2, f"takes no {c.x.type}")
    groups, channels, kind = c.int("num_groups"), c.x.type.dims[1], c.x.type.dtype
    c.require(groups > 0 and channels % groups == 0, f"has {groups} groups of {channels} channels")
    scale, bias = c.value(1), c.value(2)
    if c.version < 21:
        scale, bias = (_repeated(c, v, channels // groups) for v in (scale, bias))
    wide = DType.FLOAT64 if kind is DType.FLOAT64 else DType.FLOAT32
    x, scale, bias = (c.cast(v, wide) for v in (c.x, scale, bias))
    op = norm.GroupNormalization(groups, c.float("epsilon", 1e-5))
    return c.cast(c.add(op, x, scale, bias), kind)


def _repeated(c: Context, value: Value, times: int) -> Value:
    """A vector with each element so many times."""
    count = value.type.size
    wide = c.add(Expand((count, times)), c.reshape(value, (count, 1)))
    return c.reshape(wide, (count * times,))


@operator("LayerNormalization", 1, 17, inputs=(2, 3), outputs=(1, 3), like=(0, -1))
def layer_normalization(c: Context) -> list[Value]:
    """The axes from ``axis`` on by their own mean and variance; version 1 is onnxruntime's"""
    axis, epsilon, kind = (
        c.axis(c.int("axis", -1), c.rank),
        c.float("epsilon", 1e-5),
        c.x.type.dtype,
    )
    wide = DType.FLOAT64 if kind is DType.FLOAT64 else DType.FLOAT32
    x = c.cast(c.x, wide)
    given = [c.value(1), c.optional(2)]
    scale, bias = (None if v is None else c.cast(v, wide) for v in given)
    kind = kind if c.version >= 17 else c.value(1).type.dtype
    results = [c.cast(layer_normalized(c, x, axis, epsilon, scale, bias), kind)]
    if c.wants(1) or c.wants(2):
        axes = tuple(range(axis, c.rank))
        mean = c.add(ReduceMean(axes, True), x)
        var = c.add(ReduceMean(axes, True), c.add(ew.Square(), c.add(ew.Sub(), x, mean)))
        shifted = c.add(ew.Add(), var, c.scalar(epsilon, wide))
        stash = c.dtype("stash_type", DType.FLOAT32)
        results += [c.cast(v, stash) for v in (mean, c.add(ew.Rsqrt(), shifted))]
    return results


def layer_normalized(
    c: Context, x: Value, axis: int, epsilon: float, scale: Value | None, bias: Value | None
) -> Value:
    """LayerNormalization of values of one dtype; scale and bias broadcast."""
    inner, op = x.type.dims[axis:], norm.LayerNormalization(axis, epsilon)
    if all(v is None or v.type.dims == inner for v in (scale, bias)):
        return c.add(op, x, scale, bias)
    found = c.add(op, x)
    found = found if scale is None else c.add(ew.Mul(), found, scale)
    return found if bias is None else c.add(ew.Add(), found, bias)


@operator("RMSNormalization", 23, inputs=2, like=1)
def rms_normalization(c: Context) -> Value:
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on"""
    axis = c.axis(c.int("axis", -1), c.rank)
    kind = c.value(1).type.dtype
    wide = DType.FLOAT64 if c.x.type.dtype is DType.FLOAT64 else DType.FLOAT32
    scale = c.cast(c.value(1), wide)
    return c.cast(rms_normalized(c, c.cast(c.x, wide), axis, c.float("epsilon", 1e-5), scale), kind)


def rms_normalized(c: Context, x: Value, axis: int, epsilon: float, scale: Value | None) -> Value:
    """RMSNormalization of values of one dtype; the scale broadcasts."""
    op = norm.RMSNormalization(axis, epsilon)
    if scale is None or scale.type.dims == x.type.dims[axis:]:
        return c.add(op, x, scale)
    return c.add(ew.Mul(), c.add(op, x, None), scale)


@operator("LRN", 1, 13)
def lrn(c: Context) -> Value:
    """x / (bias + alpha/size * sum of squares of nearby channels)^beta"""
    size = c.int("size")
    c.require(size >= 1, f"has the size {size}")
    before = (size - 1) // 2
    op = norm.LRN(
        (1,), (before,), (size - 1 - before,), c.float("alpha", 1e-4) / size, c.float("beta", 0.75),
        c.float("bias", 1.0),
    )  # fmt: skip
    return c.add(op, c.x)


@operator("LpNormalization", 1, 22)
def lp_normalization(c: Context) -> Value:
    """x over its p-norm along an axis; 0 where that is 0"""
    axis, power = c.axis(c.int("axis", -1), c.rank), c.int("p", 2)
    c.require(power in (1, 2), f"has p = {power}, not 1 or 2")
    length = c.add((ReduceL1 if power == 1 else ReduceL2)((axis,), True), c.x)
    zero = c.scalar(0, c.x.type.dtype)
    safe = c.add(Where(), c.add(Equal(), length, zero), c.scalar(1, c.x.type.dtype), length)
    return c.add(ew.Div(), c.x, safe)


@operator("MeanVarianceNormalization", 1, 9, 13)
def mean_variance_normalization(c: Context) -> Value:
    """(x - mean) / (sqrt(var) + 1e-9) over axes"""
    usual: tuple[int, ...] = (0, 2, 3)
    if c.version < 9 and (c.has("across_channels") or c.has("normalize_variance")):  # as in Caffe
        usual = tuple(range(1 if c.flag("across_channels") else 2, c.rank))
    axes = axis_set(c, c.int_list("axes", usual), c.rank)
    by_root = c.version >= 9 or bool(c.int("normalize_variance", 1))
    return c.add(norm.MeanVarianceNormalization(axes, by_root, 1e-9, "add_root"), c.x)


#: Below this version softmax and its kin run over all axes from ``axis`` on, by default the second.
_ONE_AXIS = 13


def _softmax(op: type[Softmax] | type[LogSoftmax]) -> Convert:
    def convert(c: Context) -> Value:
        x, axis = _rows(c)
        return c.reshape(c.add(op(axis), x), c.x.type.dims)

    convert.__doc__ = op.__doc__
    return convert


def _rows(c: Context) -> tuple[Value, int]:
    """The input, flattened to a matrix in old versions, and the axis. A scalar is a row of one."""
    if c.rank == 0:
        c.require(c.int("axis", -1) in (-1, 0), f"axis {c.int('axis', -1)} of a scalar")
        return c.reshape(c.x, (1,)), 0
    if c.version >= _ONE_AXIS:
        return c.x, c.axis(c.int("axis", -1), c.rank)
    axis, dims = c.int("axis", 1), c.x.type.dims
    c.require(-c.rank <= axis <= c.rank, f"axis {axis} does not exist in {c.x.type}")
    axis = axis + c.rank if axis < 0 else axis
    return c.reshape(c.x, (math.prod(dims[:axis]), math.prod(dims[axis:]))), 1


operator("Softmax", 1, 11, 13)(_softmax(Softmax))
operator("LogSoftmax", 1, 11, 13)(_softmax(LogSoftmax))


@operator("Hardmax", 1, 11, 13)
def hardmax(c: Context) -> Value:
    """1 at the first largest element along an axis, else 0"""
    x, axis = _rows(c)
    size, rank = x.type.dims[axis], x.type.rank
    if x.type.size == 0:
        return c.add(Identity(), c.x)
    best = c.add(ArgMax(axis, True), x)
    places = np.arange(size, dtype=np.int32).reshape(size, *[1] * (rank - axis - 1))
    chosen = c.add(Equal(), best, c.constant(places, "places"))
    return c.reshape(c.cast(chosen, c.x.type.dtype), c.x.type.dims)
