"""Arithmetic, logic, comparisons, selection and conversion, element by element."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Op, Value
from vknn.ops import bits
from vknn.ops import elementwise as ew
from vknn.ops.casting import BitCast
from vknn.ops.elementwise import logic

_UNARY: dict[str, Op] = {
    "STABLEHLO_ABS": ew.Abs(),
    "STABLEHLO_COSINE": ew.Cos(),
    "STABLEHLO_EXPONENTIAL": ew.Exp(),
    "STABLEHLO_FLOOR": ew.Floor(),
    "STABLEHLO_LOG": ew.Log(),
    "STABLEHLO_LOGISTIC": ew.Sigmoid(),
    "STABLEHLO_NEGATE": ew.Neg(),
    "STABLEHLO_RSQRT": ew.Rsqrt(),
    "STABLEHLO_TANH": ew.Tanh(),
}
_BINARY: dict[str, Op] = {
    "STABLEHLO_ADD": ew.Add(),
    "STABLEHLO_DIVIDE": ew.Div(),
    "STABLEHLO_MAXIMUM": ew.Max(),
    "STABLEHLO_MINIMUM": ew.Min(),
    "STABLEHLO_MULTIPLY": ew.Mul(),
    "STABLEHLO_POWER": ew.Pow(),
    "STABLEHLO_REMAINDER": ew.Fmod(),
    "STABLEHLO_SUBTRACT": ew.Sub(),
}
#: What some of these are of bool.
_OF_BOOL: dict[str, Op] = {
    "STABLEHLO_ADD": logic.Or(),
    "STABLEHLO_AND": logic.And(),
    "STABLEHLO_MAXIMUM": logic.Or(),
    "STABLEHLO_MINIMUM": logic.And(),
    "STABLEHLO_MULTIPLY": logic.And(),
    "STABLEHLO_OR": logic.Or(),
}
_BITWISE: dict[str, Op] = {
    "STABLEHLO_AND": bits.BitwiseAnd(),
    "STABLEHLO_OR": bits.BitwiseOr(),
    "STABLEHLO_SHIFT_LEFT": bits.BitShift(left=True),
}
#: By the numbers of StablehloComparisonDirection.
_DIRECTIONS: tuple[Op, ...] = (
    logic.Equal(), logic.NotEqual(), logic.GreaterOrEqual(), logic.Greater(),
    logic.LessOrEqual(), logic.Less(),
)  # fmt: skip
#: StablehloComparisonType's FLOAT_TOTAL_ORDER.
TOTAL_ORDER = 2
_INTEGERS = {DType.FLOAT16: DType.INT16, DType.FLOAT32: DType.INT32, DType.FLOAT64: DType.INT64}


def require_same(c: Context, *values: Value) -> None:
    """Check: Malformed unless all values have one shape and type."""
    first, *others = (v.type for v in values)
    for other in others:
        c.require(other == first, f"has operands {first} and {other}: nothing broadcasts here")


@operator(*_UNARY)
def unary(c: Context) -> Value:
    """Functions of one operand."""
    return c.add(_UNARY[c.operator.code], c.x)


@operator("STABLEHLO_CBRT")
def cube_root(c: Context) -> Value:
    """Cube root, that of a negative number being negative."""
    x = c.x
    root = c.add(ew.Pow(), c.add(ew.Abs(), x), c.scalar(1 / 3, x.type.dtype))
    return c.add(ew.Mul(), c.add(ew.Sign(), x), root)


@operator(*_BINARY, inputs=2)
def binary(c: Context) -> Value:
    """Arithmetic on two operands of one type; integers wrap around, bool counts to 1."""
    return _joined(c, _BINARY)


@operator(*_BITWISE, inputs=2)
def bitwise(c: Context) -> Value:
    """Logic on bool and on the bits of integers; shifts by the width or more leave nothing."""
    return _joined(c, _BITWISE)


def _joined(c: Context, ops: dict[str, Op]) -> Value:
    a, b, code = c.x, c.value(1), c.operator.code
    require_same(c, a, b)
    known = _OF_BOOL if a.type.dtype is DType.BOOL and code in _OF_BOOL else ops
    return c.add(known[code], a, b)


@operator("STABLEHLO_CLAMP", inputs=3)
def clamp(c: Context) -> Value:
    """The second operand held between the first and the third, which may be scalars."""
    low, x, high = c.x, c.value(1), c.value(2)
    for bound in (low, high):
        good = bound.type.dtype is x.type.dtype and bound.type.dims in ((), x.type.dims)
        c.require(good, f"holds {x.type} between {low.type} and {high.type}")
    return c.add(ew.Min(), c.add(ew.Max(), x, low), high)


@operator("STABLEHLO_COMPARE", inputs=2)
def compare(c: Context) -> Value:
    """Comparison of two operands of one type, of floats in their total order if it says so."""
    a, b = c.x, c.value(1)
    require_same(c, a, b)
    direction, kind = c.options["comparison_direction"], c.options["compare_type"]
    c.require(direction < len(_DIRECTIONS), f"compares in the direction {direction}")
    op = _DIRECTIONS[direction]
    if kind == TOTAL_ORDER:
        a, b = total_order(c, a), total_order(c, b)
    elif a.type.dtype is DType.BOOL and not isinstance(op, logic.Equal | logic.NotEqual):
        a, b = c.cast(a, DType.INT32), c.cast(b, DType.INT32)
    return c.add(op, a, b)


def total_order(c: Context, x: Value) -> Value:
    """Integers in the order of IEEE's totalOrder of floats: -NaN, -inf, -0, 0, inf, NaN."""
    whole = _INTEGERS.get(x.type.dtype)
    if whole is None:
        c.fail(f"asks for the total order of {x.type}")
    found = c.add(BitCast(whole), x)
    lowest = int(np.iinfo(whole.numpy).min)
    # The magnitude of what has its sign set counts downwards: below 0 all bits but the sign turn.
    below = c.add(logic.Less(), found, c.scalar(0, whole))
    turned = c.add(ew.Sub(), c.scalar(lowest, whole), found)
    turned = c.add(ew.Sub(), turned, c.scalar(1, whole))
    return c.add(logic.Where(), below, turned, found)


@operator("STABLEHLO_SELECT", inputs=3, takes_quantized=True)
def select(c: Context) -> Value:
    """The second operand where the first, of its shape or one for all, is true, else the third."""
    condition, a, b = c.x, c.value(1), c.value(2)
    require_same(c, a, b)
    good = condition.type.dtype is DType.BOOL and condition.type.dims in ((), a.type.dims)
    c.require(good, f"chooses between {a.type} by {condition.type}")
    return c.add(logic.Where(), condition, a, b)


@operator("STABLEHLO_CONVERT")
def convert(c: Context) -> Value:
    """The operand in the type of the output; floats become integers towards zero."""
    if c.source(0).sub_byte is not None or c.target().sub_byte is not None:
        c.refuse(f"{c.source(0).type_name} as {c.target().type_name}")
    return c.cast(c.x, c.target().dtype)
