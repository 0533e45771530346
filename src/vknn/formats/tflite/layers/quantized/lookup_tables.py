"""Lookup tables of unary functions of quantized integers: 256 entries for 8 bits, 65,536 for 16.

A table holds the result of TensorFlow Lite's kernel for each integer; the device only looks it up.
How each kernel rounds is stated at its function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import (
    RELU_0_TO_1,
    activation_bounds,
    all_values,
    check_symmetric_int16,
    float32_ratio,
    output_quant,
    power_of_two_exponent,
    scale_of,
    table_lookup,
    zero_of,
)
from vknn.formats.tflite.layers.quantized.c_functions import c_function
from vknn.formats.tflite.registry import quantized
from vknn.graph import DType, Value
from vknn.ops.quantized import fixed_point as fp

_Function = Callable[[np.ndarray], np.ndarray]

_FLOAT: dict[str, _Function] = {
    "LOGISTIC": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "TANH": np.tanh,
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "EXP": np.exp,
}


@quantized(*_FLOAT, "LOG", "GELU")
def unary_function(c: Context) -> Value:
    """Functions computed in float32: at each integer of 8 bits, at 513 samples for 16 bits."""
    check_symmetric_int16(c)
    _check_output(c)
    made = {"LOG": _logarithm, "GELU": _gelu}.get(c.operator.code)
    function = made(c) if made else _FLOAT[c.operator.code]
    if c.x.type.dtype is DType.INT16:
        if c.operator.code in ("LOGISTIC", "TANH"):
            return table_lookup(c, _sigmoid_table(c))
        return table_lookup(c, _interpolated(c, function))
    return table_lookup(c, _sampled(c, function))


def _check_output(c: Context) -> None:
    """Raises Malformed for output scales that the kernels of LOGISTIC and TANH do not take."""
    code, dtype = c.operator.code, c.x.type.dtype
    scale = float(scale_of(output_quant(c)))
    if code == "LOGISTIC":
        good = scale == (2.0**-15 if dtype is DType.INT16 else 2.0**-8)
    else:
        good = code != "TANH" or dtype is not DType.INT16 or power_of_two_exponent(scale) == -15
    c.require(good, f"has an output of {dtype.value} with the scale {scale:.6g}")


def _logarithm(c: Context) -> _Function:
    """Natural logarithm; the lowest number of the output where x is not positive."""
    wanted = output_quant(c)
    lowest = np.iinfo(c.target().dtype.numpy).min - zero_of(wanted)
    return lambda x: np.where(x > 0, np.log(x), scale_of(wanted) * np.float32(lowest))


def _gelu(c: Context) -> _Function:
    """GELU in float32, by the C library's erfc and tanh."""
    f32 = np.float32
    if c.options["approximate"]:
        scale, cubic = f32(np.sqrt(2 / np.pi)), f32(0.044715)
        tanh = c_function("tanh")
        return lambda x: f32(0.5) * x * (1 + tanh(scale * (x + cubic * x * x * x)))
    erfc = c_function("erfc")
    return lambda x: f32(0.5) * x * erfc(x * f32(-np.sqrt(0.5)))


def _sampled(c: Context, function: _Function) -> np.ndarray:
    """Table of ``function`` computed in float32 for every integer."""
    given, wanted = c.quant(0), output_quant(c)
    real = scale_of(given) * (all_values(c.x.type.dtype) - zero_of(given)).astype(np.float32)
    info = np.iinfo(c.target().dtype.numpy)
    with np.errstate(all="ignore"):
        y = function(real).astype(np.float32) * (np.float32(1) / scale_of(wanted))
    whole = np.clip(np.nan_to_num(fp.round_half_away(y), nan=0.0), -(2.0**30), 2.0**30)
    return np.clip(whole.astype(np.int64) + zero_of(wanted), info.min, info.max)


def _interpolated(c: Context, function: _Function) -> np.ndarray:
    """Table of ``function`` for every int16, interpolated between 513 samples."""
    given, wanted = c.quant(0), output_quant(c)
    table = interpolation_table(
        function, (scale_of(given), zero_of(given)), (scale_of(wanted), zero_of(wanted))
    )
    return interpolate(table, all_values(DType.INT16))


def interpolate(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """int16 ``x`` in a table of 513 samples, as int64; slopes and results wrap around in int16."""
    index, offset = 256 + (x >> 7), x & 0x7F
    slope = (table[index + 1] - table[index]).astype(np.int16).astype(np.int64)
    return np.asarray((table[index] + ((slope * offset + 64) >> 7)).astype(np.int16), np.int64)


def interpolation_table(
    function: _Function, given: tuple[np.float32, int], wanted: tuple[np.float32, int]
) -> np.ndarray:
    """Table of 513 samples of ``function`` over the range of int16, as int64.

    ``given``, ``wanted``: scale and zero point of input and output. Each sample is moved by half
    the error of linear interpolation in the middle of its step.
    """
    f32, info = np.float32, np.iinfo(np.int16)
    low, high = (given[0] * f32(limit - given[1]) for limit in (info.min, info.max))
    bottom, top = (wanted[0] * f32(limit - wanted[1]) for limit in (info.min, info.max))
    step = (high - low) / f32(512)
    inverse = f32(65536) / (top - bottom)
    places = low + np.arange(513, dtype=f32) * step
    with np.errstate(all="ignore"):
        values = function(places).astype(f32)
        middles = function(places[:-1] + step / f32(2)).astype(f32)
        values[512] = function(np.asarray([high], f32)).astype(f32)[0]
        sample = fp.round_half_away(values * inverse)
        between = fp.round_half_away((values[1:] * inverse + sample[:-1]) / f32(2))
        error = between - fp.round_half_away(middles * inverse)
    bias = np.append(fp.round_half_away(error / f32(2)), f32(0))
    table = np.clip(np.nan_to_num(sample - bias, nan=0.0), info.min, info.max)
    return np.asarray(table, np.int64)


#: sigmoid(i / 24) in 16 bits, the samples of int16 LOGISTIC and TANH. Some are one more than the
#: nearest integer (as in the table of TensorFlow Lite's kernels/internal/common.cc).
_SIGMOID = np.round(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
_SIGMOID[
    [
        *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40),
        *(41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
    ]
] += 1


def _sigmoid_table(c: Context) -> np.ndarray:
    """Table of int16 LOGISTIC or TANH, by inputs rescaled so that 2^17 stands for 10.7."""
    tanh = c.operator.code == "TANH"
    multiplier, shift = _sigmoid_multiplier(float(scale_of(c.quant(0))), tanh)
    rounding = 1 << (shift - 1) if shift else 0
    x = fp.wrapped(all_values(DType.INT16) * multiplier + rounding) >> shift
    bits = 8 if tanh else 9
    size = np.abs(x)
    index, offset = np.minimum(size >> bits, 254), size & ((1 << bits) - 1)
    y = (_SIGMOID[index] << bits) + offset * (_SIGMOID[index + 1] - _SIGMOID[index])
    far = (size >> bits) >= 255
    if tanh:
        y = np.where(far, 0xFFFF << bits, y)
        y = np.where(x >= 0, y - (1 << 23) + (1 << 7), -y + (1 << 23) + (1 << 7) - 1)
        return y >> 8
    y = np.where(far, 0x7FFF << 10, y)
    return np.where(x >= 0, y + (1 << 9), (1 << 25) - y + (1 << 9) - 1) >> 10


def _sigmoid_multiplier(scale: float, tanh: bool) -> tuple[int, int]:
    """Multiplier and right shift that bring inputs to the scale of the sigmoid table."""
    exponent = power_of_two_exponent(scale)
    if exponent is not None and 12 + exponent in ((0, 1) if tanh else (0,)):
        return 3 << (12 + exponent), 0
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        shift += 1
        multiplier *= 2.0
    return int(multiplier), shift


@quantized("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(c: Context) -> Value:
    """Clamping activations: rescaled in fixed point, then clamped."""
    check_symmetric_int16(c)
    given, wanted = c.quant(0), output_quant(c)
    code = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3, "RELU_0_TO_1": RELU_0_TO_1}[c.operator.code]
    low, high = activation_bounds(c, code)
    q, shift = fp.quantize_multiplier(float32_ratio(scale_of(given), scale_of(wanted)))
    x = all_values(c.x.type.dtype) - zero_of(given)
    return table_lookup(c, np.clip(fp.multiply(x, q, shift) + zero_of(wanted), low, high))


@quantized("LEAKY_RELU")
def leaky_relu(c: Context) -> Value:
    """Leaky ReLU: a multiplier for x >= 0 and another, with alpha, below."""
    check_symmetric_int16(c)
    given, wanted = c.quant(0), output_quant(c)
    alpha = np.float32(c.options["alpha"])
    x = all_values(c.x.type.dtype) - zero_of(given)
    above = fp.multiply(
        x, *fp.quantize_multiplier(float32_ratio(scale_of(given), scale_of(wanted)))
    )
    q, shift = fp.quantize_multiplier(abs(float32_ratio(scale_of(given) * alpha, scale_of(wanted))))
    below = fp.multiply(x, -q if alpha < 0 else q, shift)
    return table_lookup(c, np.where(x >= 0, above, below) + zero_of(wanted))


@quantized("ABS")
def absolute(c: Context) -> Value:
    """Absolute value, rescaled in fixed point."""
    check_symmetric_int16(c)
    given, wanted = c.quant(0), output_quant(c)
    q, shift = fp.quantize_multiplier(float32_ratio(scale_of(given), scale_of(wanted)))
    size = np.abs(all_values(c.x.type.dtype) - zero_of(given))
    if scale_of(given) != scale_of(wanted):
        size = fp.multiply(size, q, shift)
    return table_lookup(c, size + zero_of(wanted))


@quantized("HARD_SWISH")
def hard_swish(c: Context) -> Value:
    """Hard swish in 16-bit fixed point, on inputs with 7 more bits."""
    given, wanted = c.quant(0), output_quant(c)
    high_scale = np.float32(1.0 / 128.0) * scale_of(given)
    gate_q, gate_shift = _int16_multiplier(
        *fp.quantize_multiplier(float(high_scale / np.float32(3 / 32768)))
    )
    out_q, out_shift = _int16_multiplier(
        *fp.quantize_multiplier(float(high_scale / scale_of(wanted)))
    )
    c.require(out_shift <= 0, f"has an output of the small scale {scale_of(wanted):.6g}")
    x = (all_values(c.x.type.dtype) - zero_of(given)) << 7
    preshift = _high16(x, out_q)
    gate = x
    if gate_shift > 0:
        gate = np.clip(gate << (gate_shift - 1), -32768, 32767)
    gate = _high16(gate, gate_q)
    if gate_shift > 0:
        gate = np.clip(gate << 1, -32768, 32767)
    if gate_shift < 0:
        gate = _shifted16(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = (gate * preshift + np.where(gate * preshift >= 0, 0, 32767)) >> 15
    return table_lookup(c, _shifted16(product, -out_shift) + zero_of(wanted))


def _shifted16(x: np.ndarray, places: int) -> np.ndarray:
    """x / 2^places, rounded; from 16 places on 1 or -1, as in the kernel's 16-bit arithmetic."""
    return fp.rounding_divide_by_pot(x, places) if places < 16 else np.where(x >= 0, 1, -1)


def _int16_multiplier(q: np.ndarray, shift: np.ndarray) -> tuple[int, int]:
    """A 31-bit multiplier rounded to 15 bits, and its shift."""
    return int(fp.saturated((q.astype(np.int64) + (1 << 15)) >> 16, np.dtype(np.int16))), int(shift)


def _high16(a: np.ndarray, b: int) -> np.ndarray:
    return fp.doubling_high_multiply(a, b, bits=16)


@quantized("SQRT", "RSQRT")
def roots(c: Context) -> Value:
    """SQRT, rounded down; RSQRT by an integer inverse root for 8 bits, interpolated for 16.

    TensorFlow Lite differs: it stops at quantized numbers below 0; here they have the root of 0.
    """
    check_symmetric_int16(c)
    given, wanted = c.quant(0), output_quant(c)
    if c.operator.code == "RSQRT" and c.x.type.dtype is DType.INT16:
        most = np.float32(np.iinfo(np.int16).max) * scale_of(wanted)
        return table_lookup(c, _interpolated(c, lambda x: np.where(x > 0, 1 / np.sqrt(x), most)))
    x = all_values(c.x.type.dtype) - zero_of(given)
    if c.operator.code == "SQRT":
        real = scale_of(given) * np.maximum(x, 0).astype(np.float32)
        y = np.floor(np.sqrt(real) / scale_of(wanted)).astype(np.int64)
        return table_lookup(c, y + zero_of(wanted))
    return table_lookup(c, _rsqrt(x, scale_of(given), scale_of(wanted)) + zero_of(wanted))


def _rsqrt(x: np.ndarray, scale: np.float32, scale_out: np.float32) -> np.ndarray:
    q, shift = fp.quantize_multiplier(1.0 / float(np.sqrt(scale) * scale_out))
    root, root_shift = fp.inverse_root(np.maximum(x, 1))
    y = fp.multiply(np.int64(1) << 20, root, root_shift)
    y = fp.multiply(y, q, shift - 20)
    return np.where(x <= 0, fp.INT32_MAX // 2, y)
