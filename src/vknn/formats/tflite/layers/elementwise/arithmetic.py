"""Arithmetic and functions of one and two inputs, element by element."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import activate
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized.arithmetic import QuantizedBinary

_UNARY: dict[str, Op] = {
    "ABS": ew.Abs(),
    "NEG": ew.Neg(),
    "SIN": ew.Sin(),
    "COS": ew.Cos(),
    "EXP": ew.Exp(),
    "LOG": ew.Log(),
    "SQRT": ew.Sqrt(),
    "SQUARE": ew.Square(),
    "CEIL": ew.Ceil(),
    "FLOOR": ew.Floor(),
    "ROUND": ew.Round(),
    "SIGN": ew.Sign(),
}
_ARITHMETIC: dict[str, Op] = {"ADD": ew.Add(), "SUB": ew.Sub(), "MUL": ew.Mul(), "DIV": ew.Div()}
_BINARY: dict[str, Op] = {
    "FLOOR_DIV": ew.FloorDiv(), "FLOOR_MOD": ew.Mod(), "POW": ew.Pow(), "ATAN2": ew.Atan2(),
}  # fmt: skip


@operator(*_UNARY)
def unary(c: Context) -> Value:
    """Functions of one input; ROUND rounds halves to even."""
    return c.add(_UNARY[c.operator.code], c.x)


@operator("RSQRT")
def rsqrt(c: Context) -> Value:
    """1 / sqrt(x) by two roundings: of the root and of its reciprocal."""
    return c.add(ew.Reciprocal(), c.add(ew.Sqrt(), c.x))


@quantized("NEG")
def quantized_neg(c: Context) -> Value:
    """Negation of the stored integers, whatever their scales and zero points are."""
    return c.add(ew.Neg(), c.x)


@operator(*_ARITHMETIC, inputs=2)
def arithmetic(c: Context) -> Value:
    """ADD, SUB, MUL and DIV with NumPy's broadcasting, then the fused activation.

    TensorFlow Lite differs: it clamps sums and products that overflow to the largest float32, and
    stops where integers are divided by a 0 that is computed at run time.
    """
    if c.operator.code == "DIV":
        check_divisor(c)
    if c.operator.code == "DIV" and c.x.type.dtype is DType.INT16:
        # TensorFlow Lite has int16 quotients of quantized tensors only; without scales the
        # multiplier of its kernel is 0.
        return c.add(QuantizedBinary("div", DType.INT16, low=-32768, high=32767), c.x, c.value(1))
    y = activate(c, c.add(_ARITHMETIC[c.operator.code], c.x, c.value(1)))
    if c.operator.code == "DIV" and y.type.dtype is DType.FLOAT32:
        most = float(np.finfo(np.float32).max)  # the quotient of a number by 0
        return c.add(ew.Clip(-most, most), y)
    return y


def check_divisor(c: Context, zero: int = 0) -> None:
    """Check: Malformed for integer division by a constant that holds ``zero``, the code of 0."""
    values = c.value(1).constant
    real = c.x.type.dtype.is_float and c.operator.code != "FLOOR_DIV"
    if values is not None and not real:
        c.require(bool((values != zero).all()), "divides by 0")


@operator(*_BINARY, inputs=2)
def binary(c: Context) -> Value:
    """FLOOR_DIV, FLOOR_MOD, POW and ATAN2 with NumPy's broadcasting."""
    if c.operator.code == "ATAN2":
        same = c.x.type == c.value(1).type
        c.require(same, f"has the coordinates {c.x.type} and {c.value(1).type}")
    elif c.operator.code != "POW":
        check_divisor(c)
    elif c.x.type.dtype.is_integer and (exponents := c.value(1).constant) is not None:
        c.require(bool((exponents >= 0).all()), "has exponents below 0")
    return c.add(_BINARY[c.operator.code], c.x, c.value(1))


@quantized("FLOOR_DIV", "FLOOR_MOD")
def quantized_floor_division(c: Context) -> Value:
    """Division of the stored integers, whatever their scales and zero points are.

    TensorFlow Lite differs: it stops at divisors of 0 that are computed at run time.
    """
    check_divisor(c)
    return c.add(_BINARY[c.operator.code], c.x, c.value(1))


@operator("MAXIMUM", inputs=2, takes_quantized=True)
def maximum(c: Context) -> Value:
    """Larger of two elements, the second where one is NaN; quantized operands share a scale."""
    return c.add(ew.Larger() if c.x.type.dtype.is_float else ew.Max(), c.x, c.value(1))


@operator("MINIMUM", inputs=2, takes_quantized=True)
def minimum(c: Context) -> Value:
    """Smaller of two elements, the second where one is NaN; quantized operands share a scale."""
    return c.add(ew.Smaller() if c.x.type.dtype.is_float else ew.Min(), c.x, c.value(1))


@operator("SQUARED_DIFFERENCE", inputs=2)
def squared_difference(c: Context) -> Value:
    """Squared difference (a - b) ** 2."""
    return c.add(ew.Square(), c.add(ew.Sub(), c.x, c.value(1)))


@operator("ADD_N", inputs=(2, None))
def add_n(c: Context) -> Value:
    """Sum of tensors of one shape, added from the first to the last."""
    total = c.x
    for number in range(1, len(c.inputs)):
        operand = c.value(number)
        c.require(operand.type == c.x.type, f"adds {operand.type} to {c.x.type}")
        total = c.add(ew.Add(), total, operand)
    return total
