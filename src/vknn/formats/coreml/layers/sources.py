"""Constants, filled blobs, ranges and shapes."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Expand


def requested_shape(c: Context, shape: list[int] | tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape that a layer asks for without having data of that size. Raises Malformed."""
    c.require(len(shape) > 0, f"{what} is empty")
    return c.size(shape)


@layer("loadConstant", inputs=0)
def load_constant(c: Context) -> Value:
    """Stored numbers as [1, 1, C, H, W]."""
    shape = tuple(c.params.shape)
    c.require(len(shape) == 3, f"its shape {list(shape)} is not [C, H, W]")
    return c.constant(c.weight(c.params.data, shape, "data").reshape(1, 1, *shape), "data")


@layer("loadConstantND", inputs=0)
def load_constant_nd(c: Context) -> Value:
    """Stored numbers of any rank from 1 on."""
    shape = tuple(c.params.shape)
    c.require(len(shape) > 0, "it has no shape")
    return c.constant(c.weight(c.params.data, shape, "data"), "data")


def _filled(c: Context, shape: tuple[int, ...]) -> Value:
    return c.add(Expand(shape), c.scalar(c.params.value))


@layer("fillLike")
def fill_like(c: Context) -> Value:
    """One number in the shape of the input."""
    return _filled(c, c.x.type.dims)


@layer("fillStatic", inputs=0)
def fill_static(c: Context) -> Value:
    """One number in a shape of the file."""
    return _filled(c, requested_shape(c, tuple(c.params.targetShape), "targetShape"))


@layer("fillDynamic")
def fill_dynamic(c: Context) -> Value:
    """One number in the shape that the input holds."""
    return _filled(c, requested_shape(c, c.ints(0, "the shape"), "the shape"))


@layer("getShape")
def get_shape(c: Context) -> Value:
    """The sizes of the input's axes."""
    return c.constant(np.asarray(c.x.type.dims, np.float32), "shape")


def _range(c: Context, start: float, end: float, step: float) -> Value:
    """start, start + step, ... before end, with numpy.arange's length and in float64."""
    finite = all(math.isfinite(v) for v in (start, end, step))
    c.require(finite and step != 0, f"goes from {start} to {end} in steps of {step}")
    count = max(0, math.ceil((end - start) / step))
    places = np.arange(c.makeable(count, DType.FLOAT64), dtype=np.float64)
    return c.constant((start + places * step).astype(np.float32), "range")


@layer("rangeStatic", inputs=0)
def range_static(c: Context) -> Value:
    """Evenly spaced numbers, by parameters of the file."""
    p = c.params
    return _range(c, p.startValue, p.endValue, p.stepSizeValue)


@layer("rangeDynamic", inputs=(1, 3))
def range_dynamic(c: Context) -> Value:
    """Evenly spaced numbers; inputs end, start, step."""
    p = c.params
    end = number(c, 0, "end")
    start = number(c, 1, "start") if len(c.inputs) > 1 else p.startValue
    step = number(c, 2, "step") if len(c.inputs) > 2 else p.stepSizeValue
    return _range(c, start, end, step)


def number(c: Context, place: int, what: str) -> float:
    """The one number that an input holds."""
    data = c.data(place)
    c.require(data.size == 1, f"{what} is no single number, but of shape {list(data.shape)}")
    return float(data.reshape(-1)[0])
