"""Products and convolutions of quantized integers: exact sums, and these rescaled to 8 bits."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.integer_products import (
    ByteTarget,
    check_zeros,
    constant_zero,
    float_multiplier,
    integer_product,
    requantized_product,
    unit_multiplier,
)
from vknn.formats.onnx.layers.common.quantization import BYTES, shifted
from vknn.formats.onnx.layers.common.windows import WindowAttributes, cropped, window
from vknn.formats.onnx.layers.convolution import convolved as real_convolved
from vknn.formats.onnx.layers.matmul import product
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.small_floats import as_float
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.casting import LowPrecisionCast
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.ops.reduction import ReduceMax, ReduceMin


@operator("MatMulInteger", 10, inputs=(2, 4))
def matmul_integer(c: Context) -> Value:
    """(a - zero point) @ (b - zero point) as int32"""
    return integer_product(c, c.value(0), c.value(1), c.optional(2), c.optional(3))


@operator("ConvInteger", 10, inputs=(2, 4))
def conv_integer(c: Context) -> Value:
    """Conv of integers without their zero points, exact, as int32"""
    return convolved(c, c.value(0), c.value(1), c.optional(2), c.optional(3))


def convolved(c: Context, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
    """The sums of (x - zero point) * (w - zero point), as int32.

    Of bytes and constant weights they are one op; of others they are computed in float64, which
    holds them exactly. Padding is 0 behind the subtraction.
    """
    _check_channels(c, w, w_zero, "zero point")
    place = window(c, w.type.dims[2:], negative=True)
    x, place = cropped(c, x, place)
    whole = _constant_weights(c, w, w_zero)
    simple = x.type.dtype in BYTES and len(place.kernel) <= 3
    if whole is not None and simple and (x_zero is None or x_zero.type.size == 1):
        return _sums_of_bytes(c, x, whole, x_zero, place)
    if w_zero is not None and w_zero.type.size > 1:
        w_zero = c.reshape(w_zero, (w_zero.type.size, *[1] * (w.type.rank - 1)))
    values = [shifted(c, v, z) for v, z in ((x, x_zero), (w, w_zero))]
    wide = [c.cast(v, DType.FLOAT64) for v in values]
    return c.cast(real_convolved(c, wide[0], wide[1], None, place), DType.INT32)


def _check_channels(c: Context, w: Value, value: Value | None, what: str) -> None:
    """Check that a scale or zero point of weights is one, or one for each channel they make."""
    count = w.type.dims[0] if w.type.rank else 1
    good = value is None or value.type.size in (1, count)
    c.require(good, f"has the {what} {value and value.type} for the weights {w.type}")


def _constant_weights(c: Context, w: Value, zero: Value | None) -> np.ndarray | None:
    """Weights without their zero points, int8 or int16; None where they are no constants."""
    numbers, shift = w.constant, None if zero is None else zero.constant
    if numbers is None or w.type.dtype not in BYTES or (zero is not None and shift is None):
        return None
    if shift is None:
        return numbers if numbers.dtype == np.int8 else numbers.astype(np.int16)
    shift = shift.astype(np.int16).reshape(-1, *[1] * (numbers.ndim - 1))
    return numbers if not shift.any() and numbers.dtype == np.int8 else numbers - shift


def _sums_of_bytes(
    c: Context, x: Value, weights: np.ndarray, zero: Value | None, place: WindowAttributes
) -> Value:
    """The sums for constant weights; a zero point that is none is taken off behind the sums."""
    known, group, sizes = constant_zero(zero), c.int("group", 1), x.type.dims[2:]
    pads = place.resolved(sizes)
    op = QuantizedConv(
        place.strides, pads, place.dilations, group, zero_in=known or 0,
        low=fp.INT32_MIN, high=fp.INT32_MAX, dtype=DType.INT32, rounding="none",
    )  # fmt: skip
    found = c.add(op, x, c.constant(weights, "weights"), None, *unit_multiplier(c))
    if known is not None or zero is None:
        return found
    totals = weights.sum(axis=1, keepdims=True, dtype=np.float64)
    # Of each window the weights that meet no padding: all of them where there is none.
    if not any(pads):
        counted = totals.sum(axis=tuple(range(2, totals.ndim)), keepdims=True).swapaxes(0, 1)
    else:
        ones = np.ones((1, 1, *sizes))
        (counted,) = Conv(place.strides, pads, place.dilations).reference(ones, totals)
    excess = c.constant(counted.astype(np.int32), "weights of windows")
    point = c.cast(c.reshape(zero, ()), DType.INT32)
    return c.add(ew.Sub(), found, c.add(ew.Mul(), excess, point))


@operator("QLinearConv", 10, inputs=(8, 9))
def qlinear_conv(c: Context) -> Value:
    """Conv of quantized integers, as quantized integers"""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (c.value(i) for i in range(8))
    _check_channels(c, w, w_scale, "scale")
    _check_channels(c, w, w_zero, "zero point")
    for number, value in ((1, x_scale), (2, x_zero), (6, y_scale), (7, y_zero)):
        c.require(value.type.size == 1, f"has {value.type} as input {number}, not one number")
    factor = _factor(c, x_scale, w_scale, y_scale)
    whole = _whole_conv(c, x, w, (x_zero, w_zero, y_zero), factor)
    if whole is not None:
        return whole
    sums = convolved(c, x, w, x_zero, w_zero)
    channels = (sums.type.dims[1], *[1] * (sums.type.rank - 2))
    if c.optional(8) is not None:
        bias = c.reshape(c.cast(c.value(8), DType.INT32), channels)
        sums = c.add(ew.Add(), sums, bias)
    if factor.type.size > 1:
        factor = c.reshape(factor, channels)
    return requantized(c, sums, factor, y_zero)


@operator("QLinearMatMul", 10, 21, inputs=8, any_type=True)
def qlinear_matmul(c: Context) -> Value:
    """A product of quantized integers or float8, as such"""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (c.value(i) for i in range(8))
    rows = a_scale.type.rank == 1 and a_scale.type.size != 1
    a_scale = c.reshape(a_scale, (a_scale.type.size, 1)) if rows else a_scale
    factor = _factor(c, a_scale, b_scale, y_scale)
    check_zeros(c, a, a_zero, "a", -2)
    check_zeros(c, b, b_zero, "b", -1)
    if any(v.type.dtype.is_small_float for v in (a, b, y_zero)):
        return _real_product(c, (a, a_zero), (b, b_zero), factor, y_zero)
    whole = requantized_product(c, a, b, (a_zero, b_zero, y_zero), factor)
    if whole is not None:
        return whole
    return requantized(c, integer_product(c, a, b, a_zero, b_zero), factor, y_zero)


def _real_product(
    c: Context, a: tuple[Value, Value], b: tuple[Value, Value], factor: Value, y_zero: Value
) -> Value:
    """The same where float8 takes part: products of floats, of values without zero points."""
    real = []
    for (value, zero), rows in ((a, True), (b, False)):
        value, zero = (c.cast(as_float(c, v), DType.FLOAT32) for v in (value, zero))
        lone = zero.type.rank == 1 and zero.type.size != 1
        zero = c.reshape(zero, (zero.type.size, 1)) if lone and rows else zero
        real.append(c.add(ew.Sub(), value, c.reshape(zero, ()) if zero.type.size == 1 else zero))
    sums = product(c, *real)
    to = y_zero.type.dtype
    if not to.is_small_float:
        return requantized(c, sums, factor, y_zero)
    return c.add(LowPrecisionCast(to), c.add(ew.Mul(), sums, factor))


def _factor(c: Context, a: Value, b: Value, y: Value) -> Value:
    """a * b / y in float32."""
    a, b, y = (c.cast(v, DType.FLOAT32) for v in (a, b, y))
    a, b, y = (c.reshape(v, ()) if v.type.size == 1 else v for v in (a, b, y))
    return c.add(ew.Div(), c.add(ew.Mul(), a, b), y)


def requantized(c: Context, sums: Value, factor: Value, zero: Value) -> Value:
    """round(sums * factor) + zero point, held within the zero point's type."""
    real = c.add(ew.Mul(), c.cast(sums, DType.FLOAT32), factor)
    zero = c.reshape(zero, ()) if zero.type.size == 1 else zero
    whole = c.add(ew.Add(), c.add(ew.Round(), real), c.cast(zero, DType.FLOAT32))
    to = zero.type.dtype
    info = np.iinfo(to.numpy)
    return c.cast(c.add(ew.Clip(float(info.min), float(info.max)), whole), to)


@operator("DynamicQuantizeLinear", 11, outputs=3)
def dynamic_quantize_linear(c: Context) -> tuple[Value, ...]:
    """x as uint8, with a scale and a zero point that suit its range"""
    return to_bytes(c, c.x)


def to_bytes(c: Context, x: Value) -> tuple[Value, Value, Value]:
    """``x`` as uint8, its scale and its zero point."""
    x, zero = c.cast(x, DType.FLOAT32), c.scalar(0.0)
    if x.type.size == 0:
        parts = ((np.zeros(x.type.dims, np.uint8), "none"), (np.float32(1), "scale"),
                 (np.uint8(0), "zero"))  # fmt: skip
        y, scale, offset = (c.constant(np.asarray(part), name) for part, name in parts)
        return y, scale, offset
    low = c.add(ew.Min(), c.add(ReduceMin(None, False), x), zero)
    high = c.add(ew.Max(), c.add(ReduceMax(None, False), x), zero)
    scale = c.add(ew.Div(), c.add(ew.Sub(), high, low), c.scalar(255.0))
    # Of zeros alone the scale is 1, as in onnxruntime, and not 0.
    scale = c.add(Where(), c.add(Equal(), scale, zero), c.scalar(1.0), scale)
    from_low = c.add(ew.Div(), c.add(ew.Sub(), zero, low), scale)
    shift = c.add(ew.Round(), c.add(ew.Clip(0.0, 255.0), from_low))
    whole = c.add(ew.Add(), c.add(ew.Round(), c.add(ew.Div(), x, scale)), shift)
    found = c.cast(c.add(ew.Clip(0.0, 255.0), whole), DType.UINT8)
    return found, scale, c.cast(shift, DType.UINT8)


def _whole_conv(
    c: Context, x: Value, w: Value, zeros: tuple[Value, Value, Value], factor: Value
) -> Value | None:
    """QLinearConv as one op; None where weights, zero points or scales are no constants.

    ``zeros``: of x, w and y. ``factor``: of the sums, one or one for each channel.
    """
    factors, target = factor.constant, ByteTarget.of(zeros[2])
    zero_in, weights = constant_zero(zeros[0]), _constant_weights(c, w, zeros[1])
    if weights is None or factors is None or target is None or zero_in is None:
        return None
    if x.type.dtype not in BYTES:
        return None
    place = window(c, w.type.dims[2:], negative=True)
    if len(place.kernel) > 3:
        return None
    x, place = cropped(c, x, place)
    op = QuantizedConv(
        place.strides, place.resolved(x.type.dims[2:]), place.dilations, c.int("group", 1),
        zero_in=zero_in, zero_out=target.zero, low=target.low, high=target.high,
        dtype=target.dtype, rounding="float",
    )  # fmt: skip
    bias = c.optional(8)
    bias = None if bias is None else c.cast(c.reshape(bias, (bias.type.size,)), DType.INT32)
    return c.add(op, x, c.constant(weights, "weights"), bias, *float_multiplier(c, factors))
