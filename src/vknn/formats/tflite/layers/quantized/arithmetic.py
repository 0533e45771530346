"""ADD, SUB, MUL, DIV, SQUARED_DIFFERENCE and PRELU on quantized tensors; QUANTIZE, DEQUANTIZE."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import (
    activation_bounds,
    all_values,
    check_symmetric_int16,
    float32_ratio,
    integer_multiplier,
    output_quant,
    power_of_two_exponent,
    scale_of,
    table_lookup,
    zero_of,
)
from vknn.formats.tflite.layers.elementwise.activation import check_slopes
from vknn.formats.tflite.layers.elementwise.arithmetic import check_divisor
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import QuantizedBinary, Rescale
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear


def _multipliers(*reals: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Fixed-point multipliers and shifts of ``reals``; 0.0 stands for one that is not used."""
    found = [integer_multiplier(real) for real in reals]
    return tuple(q for q, _ in found), tuple(shift for _, shift in found)


@quantized("ADD", "SUB")
def add(c: Context) -> Value:
    """Sum or difference of operands in twice the larger scale with 20 (int16: 15) more bits.

    int16 tensors whose scales are powers of two are shifted instead.
    """
    check_symmetric_int16(c)
    kind = c.operator.code.lower()
    dtype = c.target().dtype
    scales = [float(scale_of(q)) for q in (c.quant(0), c.quant(1), output_quant(c))]
    low, high = activation_bounds(c, c.options["fused_activation_function"])
    zeros = (zero_of(c.quant(0)), zero_of(c.quant(1)))
    powers = [p for s in scales if (p := power_of_two_exponent(s)) is not None]
    if dtype is DType.INT16 and c.options.get("pot_scale_int16", True) and len(powers) == 3:
        shifts = [p - powers[2] for p in powers[:2]]
        c.require(max(shifts) == 0 or min(shifts) == 0, f"adds scales {scales[:2]} to {scales[2]}")
        c.require(max(shifts) <= 0, f"adds scales {scales[:2]} to the smaller {scales[2]}")
        held = (max(shifts[0], -31), max(shifts[1], -31), 0)  # 16 bits are 0 from -17 on
        op = QuantizedBinary(f"shifted_{kind}", dtype, zeros, shifts=held, low=low, high=high)
        return c.add(op, c.x, c.value(1))
    left = 15 if dtype is DType.INT16 else 20
    twice = 2 * max(scales[:2])
    q, shift = _multipliers(scales[0] / twice, scales[1] / twice, twice / ((1 << left) * scales[2]))
    return _binary(c, kind, q, shift, left, (low, high))


def _binary(
    c: Context,
    kind: str,
    q: tuple[int, ...],
    shift: tuple[int, ...],
    left: int = 0,
    limits: tuple[int, int] | None = None,
) -> Value:
    dtype = c.target().dtype
    c.require(dtype is c.x.type.dtype, f"makes {dtype.value} of {c.x.type.dtype.value}")
    info = np.iinfo(dtype.numpy)
    low, high = limits or (int(info.min), int(info.max))
    op = QuantizedBinary(
        kind,
        dtype,
        (zero_of(c.quant(0)), zero_of(c.quant(1))),
        (q[0], q[1], q[2]),
        (shift[0], shift[1], shift[2]),
        left,
        zero_of(output_quant(c)),
        low,
        high,
    )
    return c.add(op, c.x, c.value(1))


@quantized("MUL", "DIV")
def multiply(c: Context) -> Value:
    """Product or quotient of the integers, rescaled by one multiplier."""
    if c.operator.code == "MUL" and c.x.type.dtype is DType.INT16 is not c.target().dtype:
        return _int16_product(c)
    a, b, y = (scale_of(q) for q in (c.quant(0), c.quant(1), output_quant(c)))
    product = c.operator.code == "MUL"
    if not product:
        check_divisor(c, zero_of(c.quant(1)))
    q, shift = _multipliers(
        0.0, 0.0, float32_ratio(a * b, y) if product else float32_ratio(a, b * y)
    )
    limits = activation_bounds(c, c.options["fused_activation_function"])
    return _binary(c, "mul" if product else "div", q, shift, 0, limits)


def _int16_product(c: Context) -> Value:
    """Product of int16 as 8 bits: the high byte of twice the product, whatever the scales are."""
    sides, dtype = (c.x.type, c.value(1).type), c.target().dtype
    known = dtype in (DType.INT8, DType.UINT8) and sides[0] == sides[1]
    c.require(known, f"makes {dtype.value} of {sides[0]} and {sides[1]}")
    limits = np.iinfo(np.int16)
    op = QuantizedBinary("doubling_high", DType.INT16, low=limits.min, high=limits.max)
    table = fp.rounding_divide_by_pot(all_values(DType.INT16), 8) + zero_of(output_quant(c))
    low, high = activation_bounds(c, c.options["fused_activation_function"])
    return table_lookup(c, np.clip(table, low, high), c.add(op, *(c.value(i) for i in range(2))))


@quantized("SQUARED_DIFFERENCE")
def squared_difference(c: Context) -> Value:
    """Squared difference of operands rescaled to twice the larger scale, with 7 more bits."""
    a, b, y = (float(scale_of(q)) for q in (c.quant(0), c.quant(1), output_quant(c)))
    twice = 2 * max(a, b)
    q, shift = _multipliers(a / twice, b / twice, twice * twice / ((1 << 14) * y))
    return _binary(c, "squared_difference", q, shift, 7)


@quantized("PRELU")
def prelu(c: Context) -> Value:
    """Parametric ReLU: a multiplier for x >= 0, another for x * slope; int16 has int8 slopes."""
    check_slopes(c)
    given, wanted = c.x.type.dtype, c.value(1).type.dtype
    expected = DType.INT8 if given is DType.INT16 else given
    c.require(wanted is expected, f"has slopes of {wanted.value} for {given.value}")
    x, alpha, y = (scale_of(q) for q in (c.quant(0), c.quant(1), output_quant(c)))
    q, shift = _multipliers(float32_ratio(x, y), float32_ratio(x * alpha, y), 0.0)
    return _binary(c, "prelu", q, shift)


_BYTES = (DType.UINT8, DType.INT8, DType.INT16)
#: Input type -> output types of QUANTIZE.
_REQUANTIZED = {
    DType.FLOAT32: _BYTES,
    DType.INT8: _BYTES,
    DType.UINT8: _BYTES,
    DType.INT16: (DType.INT8, DType.INT16, DType.INT32),
    DType.INT32: (DType.INT8, DType.INT16),
}


@operator("QUANTIZE", takes_quantized=True)
def quantize(c: Context) -> Value:
    """Quantization of floats (halves away from zero); integers are rescaled in fixed point."""
    wanted, target = output_quant(c), c.target()
    known = _REQUANTIZED.get(c.x.type.dtype, ())
    c.require(target.dtype in known, f"makes {target.dtype.value} of {c.x.type.dtype.value}")
    low, high = target.limits
    if c.x.type.dtype.is_float:
        op = QuantizeLinear(target.dtype, low, high, "half_away", axis=wanted.axis)
        zero = c.constant(_parameter(wanted.zero_point.astype(np.int32)), "zero point")
        return c.add(op, c.x, c.constant(_parameter(wanted.scale), "scale"), zero)
    given = c.quant(0)
    q, shift = fp.quantize_multiplier(float(scale_of(given)) / float(scale_of(wanted)))
    if c.x.type.dtype is DType.INT32:
        rescale = Rescale(
            int(q), int(shift), zero_of(given), 0, zero_of(wanted), low, high, target.dtype
        )
        return c.add(rescale, c.x)
    x = all_values(c.x.type.dtype) - zero_of(given)
    return table_lookup(c, np.clip(fp.multiply(x, q, shift) + zero_of(wanted), low, high))


@operator("DEQUANTIZE", takes_quantized=True)
def dequantize(c: Context) -> Value:
    """float32 from float16, or from integers as (x - zero point) * scale."""
    if c.x.type.dtype is DType.FLOAT16:
        return c.add(ew.Cast(DType.FLOAT32), c.x)
    given = c.quant(0)
    c.require(c.x.type.dtype is not DType.INT32, "takes integers of 8 or 16 bits, not int32")
    real = c.x.type.dtype is not DType.INT16 or not given.zero_point.any()
    c.require(real, f"has int16 with the zero point {zero_of(given)}")
    x = c.add(ew.Cast(DType.INT32), c.x)
    if given.zero_point.any():
        zero = given.zero_point.astype(np.int32)
        shape = [1] * x.type.rank
        if zero.size > 1:
            shape[given.axis] = zero.size
        x = c.add(ew.Sub(), x, c.constant(zero.reshape(shape if zero.size > 1 else ()), "zero"))
    scale = c.constant(_parameter(given.scale), "scale")
    return c.add(DequantizeLinear(axis=given.axis), x, scale)


def _parameter(array: np.ndarray) -> np.ndarray:
    """``array`` as a scalar where it has one element."""
    return array.reshape(()) if array.size == 1 else array
