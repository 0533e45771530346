"""Activation layers, by the name of their function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Op, Value
from vknn.ops.elementwise.activation import Clip, Elu, LeakyRelu, Relu, Sigmoid
from vknn.ops.elementwise.binary import PRelu
from vknn.ops.elementwise.logic import Equal
from vknn.ops.elementwise.unary import Exp, Tanh


def _relu(c: Context) -> Value:
    """x, or negative_slope * x where x is negative; for integers rounded to the nearest."""
    slope = c.float("negative_slope", 0.0)
    if slope == 0:
        return c.add(Relu(), c.x)
    return c.add(LeakyRelu(slope), c.float_input())


def _prelu(c: Context) -> Value:
    """PRelu: slopes, one per channel on axis 1 or one for all, are a blob or the second input."""
    x = c.float_input()
    if c.has_blob("weights") or len(c.inputs) == 1:
        slope = c.constant(c.blob("weights", dtype=np.float32), "weights")
    else:
        slope = c.float_input(1)
    channels, size = x.type.dims[1] if x.type.rank > 1 else 1, slope.type.size
    c.require(size in (1, channels), f"has {size} slopes for {channels} channels")
    return c.add(PRelu(), x, c.reshape(slope, (size, *(1,) * max(x.type.rank - 2, 0))))


def _clamp(c: Context) -> Value:
    """min(max(x, min), max); for integers rounded to the nearest."""
    low, high = c.float("min", 0.0), c.float("max", 6.0)
    c.require(low <= high, f"min {low} is above max {high}")
    if c.x.type.dtype.is_integer and c.dtype().is_integer:
        return c.add(Clip(float(np.rint(low)), float(np.rint(high))), c.int_input())
    return c.add(Clip(low, high), c.float_input())


def _not(c: Context) -> Value:
    """1 where x is 0, else 0, in the dtype of x."""
    x = c.x
    if x.type.dtype is DType.BOOL:
        x = c.cast(x, DType.INT32)
    zero = c.scalar(0, x.type.dtype)
    return c.cast(c.add(Equal(), x, zero), x.type.dtype)


def _plain(op: Callable[[], Op]) -> Callable[[Context], Value]:
    return lambda c: c.add(op(), c.float_input())


_TYPES: dict[str, Callable[[Context], Value]] = {
    "sigmoid": _plain(Sigmoid),
    "tanh": _plain(Tanh),
    "elu": lambda c: c.add(Elu(c.float("alpha", 1.0)), c.float_input()),
    "relu6": lambda c: c.add(Clip(0.0, float(c.float("n", 6.0))), c.float_input()),
    "not": _not,
    "exp": _plain(Exp),
    "relu": _relu,
    "prelu": _prelu,
    "clamp": _clamp,
}


@layer("Activation")
def activation(c: Context) -> Value:
    return _TYPES[c.text("type", choices=tuple(_TYPES))](c)


layer("ReLU")(_relu)
layer("PReLU", inputs=(1, 2))(_prelu)
layer("Clamp")(_clamp)
# Files of the first versions have layers named after the functions.
layer("Sigmoid", "Logistic")(_TYPES["sigmoid"])
layer("TanH")(_TYPES["tanh"])
layer("ELU")(_TYPES["elu"])
layer("ReLU6")(_TYPES["relu6"])
layer("Not")(_not)
layer("Exp")(_TYPES["exp"])
