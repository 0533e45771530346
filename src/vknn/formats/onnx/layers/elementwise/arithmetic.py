"""Arithmetic and bits of two or more tensors that broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.broadcasting import operands
from vknn.formats.onnx.registry import Convert, operator
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.bits import BitShift, BitwiseAnd, BitwiseOr, BitwiseXor

_MANY = (1, None)
#: Integers that float32 holds exactly.
_IN_FLOAT32 = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


def _binary(op: Op) -> Convert:
    def convert(c: Context) -> Value:
        return c.add(op, *operands(c))

    convert.__doc__ = type(op).__doc__
    return convert


for _type in (ew.Add, ew.Sub, ew.Mul):
    operator(_type.__name__, 1, 6, 7, 13, 14, inputs=2)(_binary(_type()))
for _bits in (BitwiseAnd, BitwiseOr, BitwiseXor):
    operator(_bits.__name__, 18, inputs=2)(_binary(_bits()))


@operator("Div", 1, 6, 7, 13, 14, inputs=2)
def quotient(c: Context) -> Value:
    """a / b; integers towards zero, and 0 where data divide them by 0"""
    return c.add(ew.Div(), *_dividend(c))


def _dividend(c: Context) -> tuple[Value, Value]:
    """Both operands. Raises Malformed where a constant divides integers by 0."""
    a, b = operands(c)
    if b.constant is not None and b.type.dtype.is_integer and a.type.size:
        c.require(bool(b.constant.all()), "divides integers by 0")
    return a, b


@operator("BitShift", 11, 28, inputs=2)
def bit_shift(c: Context) -> Value:
    """Bits moved up (LEFT) or down (RIGHT)"""
    left = c.text("direction", choices=("LEFT", "RIGHT")) == "LEFT"
    return c.add(BitShift(left), c.value(0), c.value(1))


@operator("Pow", 1, 7, 12, 13, 15, inputs=2, like=0)
def power(c: Context) -> Value:
    """a to the power b, in the type of a"""
    a, b = operands(c)
    kind, other = a.type.dtype, b.type.dtype
    if kind is other:
        return c.add(ew.Pow(), a, b)
    if kind.is_float or (other.is_integer and other is not DType.UINT64):
        return c.add(ew.Pow(), a, c.cast(b, kind))
    wide = c.add(ew.Pow(), c.cast(a, DType.FLOAT64), c.cast(b, DType.FLOAT64))
    return c.cast(wide, kind)


@operator("Mod", 10, 13, 28, inputs=2)
def modulo(c: Context) -> Value:
    """The remainder with the sign of b, with fmod that of a; 0 where data divide integers by 0"""
    a, b = _dividend(c)
    kind = c.int("fmod", 0)
    c.require(kind in (0, 1), f"has fmod = {kind}, which is 0 or 1")
    return c.add(ew.Fmod() if kind else ew.Mod(), a, b)


def _joined(c: Context, op: Op) -> Value:
    values = [c.value(number) for number in range(len(c.inputs))]
    same = len({value.type.dims for value in values}) == 1
    shown = ", ".join(str(value.type) for value in values)
    c.require(same or c.version >= 8, f"takes tensors of one shape in opset 7 and before: {shown}")
    return joined(c, op, values)


def joined(c: Context, op: Op, values: Sequence[Value]) -> Value:
    """``op`` applied from the left to all values."""
    found = values[0]
    for value in values[1:]:
        found = c.add(op, found, value)
    return found


@operator("Max", 1, 6, 8, 12, 13, inputs=_MANY)
def maximum(c: Context) -> Value:
    """The largest of all inputs"""
    return _joined(c, ew.Max())


@operator("Min", 1, 6, 8, 12, 13, inputs=_MANY)
def minimum(c: Context) -> Value:
    """The smallest of all inputs"""
    return _joined(c, ew.Min())


@operator("Sum", 1, 6, 8, 13, inputs=_MANY)
def total(c: Context) -> Value:
    """The sum of all inputs"""
    return _joined(c, ew.Add())


@operator("Mean", 1, 6, 8, 13, inputs=_MANY)
def mean(c: Context) -> Value:
    """The sum of all inputs over their number"""
    found = _joined(c, ew.Add())
    return c.add(ew.Div(), found, c.scalar(len(c.inputs), found.type.dtype))


@operator("PRelu", 1, 6, 7, 9, 16, inputs=2)
def prelu(c: Context) -> Value:
    """x, or slope * x below 0"""
    x, slope = c.value(0), c.value(1)
    if c.version < 7 and slope.type.rank == 1 and x.type.rank > 1 and slope.type.size > 1:
        slope = c.reshape(slope, (slope.type.size, *[1] * (x.type.rank - 2)))
    return c.add(ew.PRelu(), x, slope)


@operator("Clip", 1, 6)
def clip_by_attributes(c: Context) -> Value:
    """x held within min..max, which are attributes"""
    most = 3.4028234663852886e38 if c.version == 6 else float("inf")
    return c.add(ew.Clip(c.float("min", -most), c.float("max", most)), c.x)


@operator("Clip", 11, 12, 13, inputs=(1, 3))
def clip(c: Context) -> Value:
    """x held within min..max, which are inputs that may be left out"""
    x, low, high = c.x, c.optional(1), c.optional(2)
    for bound in (low, high):
        same = bound is None or (bound.type.dtype is x.type.dtype and bound.type.size == 1)
        c.require(same, f"has the bound {None if bound is None else bound.type} for {x.type}")
    bounds = [None if b is None else b.constant for b in (low, high)]
    known = all(
        b is None or array is not None for b, array in zip((low, high), bounds, strict=True)
    )
    if known and (x.type.dtype.is_float or x.type.dtype in _IN_FLOAT32):
        numbers = [None if b is None else float(b.reshape(-1)[0]) for b in bounds]
        least = float("-inf") if numbers[0] is None else numbers[0]
        return c.add(ew.Clip(least, float("inf") if numbers[1] is None else numbers[1]), x)
    if low is not None:
        x = c.add(ew.Max(), x, c.reshape(low, ()))
    return x if high is None else c.add(ew.Min(), x, c.reshape(high, ()))
