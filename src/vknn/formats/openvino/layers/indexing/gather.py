"""Elements looked up by indices: Gather, Bucketize, OneHot."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.formats.openvino.value_parsing import parse_bool, parse_float
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Cast
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.elementwise.unary import Ceil, Floor
from vknn.ops.indexing.gather import Gather, SearchSorted

_MOST = 1 << 31


def take_or_zero(c: Context, x: Value, indices: Value, axis: int = 0) -> Value:
    """x at int32 ``indices`` along ``axis``; zeros where an index is out of range."""
    given, size = indices.constant, x.type.dims[axis]
    inside = given is not None and bool(((given >= 0) & (given < size)).all())
    outside = "nearest" if inside else "zero"
    return c.add(Gather(axis, from_end=False, outside=outside), x, indices)


@layer("Gather", inputs=2)
def gather(c: Context) -> Value:
    """numpy.take of input 0 at the indices of input 1; zeros for indices out of range.

    The specification lists the inputs in the other order, files do not; the shapes tell.
    """
    data = 1 if _swapped(c) else 0
    axis = c.axis(c.int("axis", 0), c.value(data).type.rank)
    return take_or_zero(c, c.value(data), c.int_input(1 - data), axis)


def _swapped(c: Context) -> bool:
    """Whether the file's shapes fit only with the indices as input 0."""
    ports = [port.dims for port in c.layer.inputs]
    return not _suits(c, ports[0], ports[1]) and _suits(c, ports[1], ports[0])


def _suits(c: Context, data: tuple[int, ...], indices: tuple[int, ...]) -> bool:
    axis, rank = c.int("axis", 0), len(data)
    if not -rank <= axis < rank:
        return False
    axis %= rank
    return (*data[:axis], *indices, *data[axis + 1 :]) == c.port().dims


@layer("Bucketize", inputs=2)
def bucketize(c: Context) -> Value:
    """The number of sorted boundaries smaller than x, without with_right_bound or equal to it."""
    right = not c.bool("with_right_bound", True)
    x, keys = c.x, c.value(1)
    c.require(keys.type.rank <= 1, f"has boundaries of the shape {list(keys.type.dims)}")
    if keys.type.size == 0:
        return c.constant(np.zeros(x.type.dims, np.int32))
    x, keys = _comparable(c, x, c.reshape(keys, (keys.type.size,)), right)
    return c.add(SearchSorted(right), keys, x)


def _comparable(c: Context, x: Value, keys: Value, right: bool) -> tuple[Value, Value]:
    """Both inputs as floats or as integers, such that rounding moves no value to another bucket."""
    floats = x.type.dtype.is_float, keys.type.dtype.is_float
    if all(floats):
        return x, keys
    if floats[0]:  # key < x is key < ceil(x), key <= x is key <= floor(x)
        x = c.add(Floor() if right else Ceil(), x)
    if floats[1]:  # key < x is floor(key) < x, key <= x is ceil(key) <= x
        keys = c.add(Ceil() if right else Floor(), keys)
    return c.cast(x, DType.INT32), c.cast(keys, DType.INT32)


@layer("OneHot")
def one_hot(c: Context) -> Value:
    """on_value where the position along a new axis equals the index, else off_value."""
    depth, rank = c.int("depth"), c.rank + 1
    axis = c.axis(c.int("axis", -1), rank)
    count = depth * c.x.type.size
    c.require(depth >= 1 and count < _MOST, f"has depth {depth}")
    # Checked before anything of that size is made.
    fits = not c.is_as_declared or math.prod(c.declared()) == count
    c.require(fits, f"has depth {depth}, the file says {list(c.port().dims)}")
    dims = list(c.x.type.dims)
    indices = c.reshape(c.int_input(), (*dims[:axis], 1, *dims[axis:]))
    shape = [1] * rank
    shape[axis] = depth
    places = c.constant(np.arange(c.makeable(depth), dtype=np.int32).reshape(shape), "places")
    on, off = (_filling(c, name, default) for name, default in (("on", 1.0), ("off", 0.0)))
    return c.add(Where(), c.add(Equal(), indices, places), on, off)


def _filling(c: Context, name: str, default: float) -> Value:
    """on_value or off_value in the output's dtype; a number, or true or false."""
    text = c.text(f"{name}_value", str(default))
    number = parse_float(text)
    if number is None:
        number = parse_bool(text)
    c.require(number is not None, f"{name}_value is {text[:60]!r}, not a number")
    (array,) = Cast(c.dtype()).reference(np.array(number, np.float64))
    return c.constant(array, name)
