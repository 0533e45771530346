"""Casts between element types."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops.casting import AsString, BitCast, LowPrecisionCast, StringToNumber
from vknn.ops.movement.shape import Identity

_CAST_VERSIONS = (6, 9, 13, 19, 21, 23, 24, 25, 28)
#: Names of element types in the first version of Cast.
_NAMES = {found.name.upper(): found.dtype for found in ELEMENT_TYPES.values()}


@operator("Cast", 1, any_type=True)
def cast_by_name(c: Context) -> Value:
    """The input in another element type, which a name says"""
    name = c.text("to").upper()
    c.require(name in _NAMES, f"casts to {name!r}, which is no element type")
    return cast_to(c, c.x, _NAMES[name])


@operator("Cast", *_CAST_VERSIONS, any_type=True)
def cast(c: Context) -> Value:
    """The input in another element type"""
    return cast_to(c, c.x, c.dtype("to"))


@operator("CastLike", 15, 19, 21, 23, 24, 25, inputs=2, any_type=True)
def cast_like(c: Context) -> Value:
    """The first input in the element type of the second"""
    return cast_to(c, c.x, c.value(1).type.dtype)


def cast_to(c: Context, x: Value, to: DType) -> Value:
    """``x`` in another element type, as the node's attributes say."""
    source = x.type.dtype
    mode = c.text("round_mode", "up", ("up", "down", "nearest"))
    if source is to:
        return c.add(Identity(), x)
    if to is DType.STRING:
        plain = c.add(LowPrecisionCast(DType.FLOAT32), x) if _is_small(source) else x
        return c.add(AsString(), plain)
    if source is DType.STRING:
        read = DType.FLOAT64 if _is_small(to) or to is DType.BOOL else to
        found = c.add(StringToNumber(read), x)
        return found if read is to else cast_to(c, found, to)
    if _is_small(to):
        return c.add(LowPrecisionCast(to, c.flag("saturate", True), mode), x)
    if _is_small(source):
        found = c.add(LowPrecisionCast(DType.FLOAT32), x)
        return c.cast(found, to)
    return c.cast(x, to)


def _is_small(dtype: DType) -> bool:
    return dtype.is_small_float or dtype.is_small_integer


@operator("BitCast", 26, any_type=True)
def bit_cast(c: Context) -> Value:
    """The bits of the input as another element type of the same width"""
    y = c.add(BitCast(c.dtype("to")), c.x)
    same = y.type.rank == c.x.type.rank
    c.require(same, f"reads {c.x.type} as {c.dtype('to').value}, which differs in width")
    return y
