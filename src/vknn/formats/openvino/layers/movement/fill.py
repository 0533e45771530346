"""Range, Fill and Broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Add, Mul
from vknn.ops.movement.shape import Expand


@layer("Broadcast", inputs=2)
def broadcast(c: Context) -> Value:
    """numpy.broadcast_to, aligned at the last axis."""
    shape = shape_of(c, 1)
    return expanded(c, c.x, shape)


def shape_of(c: Context, number: int) -> tuple[int, ...]:
    """The output's shape, which is an input; the file's where that is computed at run time."""
    if c.value(number).constant is None and c.is_as_declared:
        return c.declared()
    shape = tuple(c.input_ints(number, "the shape"))
    c.require(min(shape, default=1) >= 1, f"{list(shape)} is no shape")
    return shape


def expanded(c: Context, x: Value, shape: Sequence[int]) -> Value:
    """``x`` repeated until it has ``shape``, by NumPy's rules."""
    dims, wanted = x.type.dims, tuple(shape)
    lead = len(wanted) - len(dims)
    fits = lead >= 0 and all(d in (1, w) for d, w in zip(dims, wanted[max(lead, 0) :], strict=True))
    c.require(fits, f"{list(dims)} does not broadcast to {list(wanted)}")
    return x if dims == wanted else c.add(Expand(wanted), x)


@layer("Fill", inputs=2)
def fill(c: Context) -> Value:
    """A tensor of the shape in input 0 filled with input 1."""
    value = c.value(1)
    c.require(value.type.size == 1, f"fills with {value.type.size} elements, not 1")
    return expanded(c, c.reshape(value, ()), shape_of(c, 0))


@layer("Range", inputs=3)
def range_(c: Context) -> Value:
    """start, start + step and so on, up to but without limit.

    The length is the file's where the numbers are computed at run time.
    """
    dtype = DType.FLOAT32 if any(v.type.dtype.is_float for v in c.inputs) else DType.INT32
    scalars = [c.cast(v, dtype) for v in c.inputs]
    for what, value in zip(("start", "limit", "step"), scalars, strict=True):
        c.require(value.type.size == 1, f"{what} has {value.type.size} elements, not 1")
    count = _range_count(c, scalars, dtype)
    start, _, step = (c.reshape(value, (1,)) for value in scalars)
    places = c.constant(np.arange(c.makeable(count)).astype(dtype.numpy), "places")
    return c.add(Add(), start, c.add(Mul(), places, step))


def _range_count(c: Context, scalars: Sequence[Value], dtype: DType) -> int:
    known = all(v.constant is not None for v in scalars)
    stated = c.port().dims
    if not known and c.is_as_declared and len(stated) == 1:
        return stated[0]
    start, limit, step = (c.input_scalar(i, "a bound") for i in range(3))
    c.require(step != 0, "has a step of 0")
    c.require(all(map(math.isfinite, (start, limit, step))), "has a bound that is not finite")
    count = max(0, math.ceil((limit - start) / step))
    # A quotient of rounded numbers may miss a whole one.
    near = dtype.is_float and len(stated) == 1 and abs(stated[0] - count) <= 1
    return stated[0] if near and c.is_as_declared else count
