"""MEAN, SUM, REDUCE_PROD, softmax and L2_NORMALIZATION on quantized tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import output_quant, scale_of, zero_of
from vknn.formats.tflite.layers.quantized.lookup_tables import interpolate, interpolation_table
from vknn.formats.tflite.layers.reduction import axes_of, empty_reduction
from vknn.formats.tflite.registry import quantized
from vknn.graph import DType, Value
from vknn.ops.elementwise import Cast
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import FloatRescale, Rescale
from vknn.ops.quantized.gemmlowp import Word
from vknn.ops.quantized.rows import (
    FixedByteSoftmax,
    FixedSoftmax,
    QuantizedL2Normalization,
    QuantizedLogSoftmax,
    QuantizedReduceProd,
)
from vknn.ops.reduction import ReduceSum


def _range(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


@quantized("MEAN", "SUM")
def mean_or_sum(c: Context) -> Value:
    """Sum of the integers times a multiplier, which for MEAN includes 1 / number of elements.

    SUM of int8 and int16 is rescaled in float32, as TensorFlow Lite's optimized kernel does it; its
    reference kernel gives wrong results there.
    """
    axes, keep = axes_of(c), bool(c.options["keep_dims"])
    given, wanted, dtype = c.quant(0), output_quant(c), c.target().dtype
    count = math.prod(c.x.type.dims[a] for a in axes)
    if not count:
        return empty_reduction(c, axes, 0)  # the integer 0, whatever the zero point is
    total = c.add(Cast(DType.INT32), c.x)
    total = c.add(ReduceSum(axes, keep), total) if axes else total
    low, high = _range(dtype)
    if c.operator.code == "SUM" and dtype in (DType.INT8, DType.INT16):
        with np.errstate(all="ignore"):
            ratio = scale_of(given) / scale_of(wanted)
            bias = np.float32(-zero_of(given)) * ratio * np.float32(count)
        finite = bool(np.isfinite(ratio) and np.isfinite(bias))
        c.require(finite, "has scales whose ratio, by the zero point and the count, is no float32")
        op = FloatRescale(float(ratio), float(bias), zero_of(wanted), low, high, dtype)
        return c.add(op, total)
    q, shift = fp.quantize_multiplier(float(scale_of(given)) / float(scale_of(wanted)))
    multiplier, exponent = int(q), int(shift)
    if c.operator.code == "MEAN":
        bits = min(count.bit_length() - 1, 32, 31 + exponent)
        multiplier, exponent = (multiplier << bits) // max(count, 1), exponent - bits
    zero_in = zero_of(given) * count
    rescale = Rescale(multiplier, exponent, zero_in, 0, zero_of(wanted), low, high, dtype)
    return c.add(rescale, total)


@quantized("REDUCE_PROD")
def product(c: Context) -> Value:
    """Product of n elements, rescaled at each step by scale_in / (scale_out ** (1 / n))."""
    axes, dims = axes_of(c), c.x.type.dims
    given, wanted = c.quant(0), output_quant(c)
    kept = [a for a in range(len(dims)) if a not in axes]
    count = math.prod(dims[a] for a in axes)
    c.require(count > 0, f"multiplies nothing along axes {list(axes)} of {c.x.type}")
    scaling = float(scale_of(given)) / float(scale_of(wanted)) ** (1.0 / count)
    q, shift = fp.quantize_multiplier(scaling)
    rows = c.transpose(c.x, (*kept, *axes))
    rows = c.reshape(rows, (math.prod(dims[a] for a in kept), count))
    y = c.add(QuantizedReduceProd(int(q), int(shift), zero_of(given), zero_of(wanted)), rows)
    keep = c.options["keep_dims"]
    return c.reshape(y, [1 if a in axes else d for a, d in enumerate(dims) if keep or a in kept])


def _exponentials(step: np.float32) -> np.ndarray:
    """Table of exp(-step * d) for the distances d from 255 to 0, rounded to float32."""
    distance = np.arange(255, -1, -1, dtype=np.float32)
    return np.exp((-step * distance).astype(np.float64)).astype(np.float32)


@quantized("SOFTMAX")
def softmax(c: Context) -> Value:
    """Softmax in fixed point: by 32 bits for 8-bit integers, by tables of 16 for int16."""
    scale, beta = float(scale_of(c.quant(0))), float(np.float32(c.options["beta"]))
    if c.x.type.dtype is DType.INT16:
        return _fixed_softmax(c, scale, beta)
    wanted, low = output_quant(c), _range(c.target().dtype)[0]
    steps = 1 << (8 * c.target().dtype.itemsize)
    good = abs(float(scale_of(wanted)) * steps - 1) < 1e-3 and zero_of(wanted) == low
    c.require(good, f"has an output that is not in steps of 1/{steps} above {low}")
    table = c.constant(_fixed_exponentials(scale * beta), "exponentials")
    return _last_axis(c, lambda x: c.add(FixedByteSoftmax(c.target().dtype), x, table))


def _fixed_exponentials(step: float) -> np.ndarray:
    """Table of exp(-step * d) in 31 fractional bits for the distances d from 255 to 0.

    Distances that 5 integer bits do not hold count nothing.
    """
    q, shift = fp.quantize_multiplier(min(step * 2.0**26, 2.0**31 - 1))
    distance = np.arange(255, -1, -1, dtype=np.int64)
    held = distance <= math.floor(31 * 2.0 ** (26 - int(shift)))
    raw = fp.multiply(np.where(held, -distance, 0), q, shift)
    table = np.where(held, Word(32).exp_of_negative(raw, 5), 0)
    return np.asarray(table, np.int32)


@quantized("LOG_SOFTMAX")
def log_softmax(c: Context) -> Value:
    """Logarithm of softmax, in float32 with a table of exponentials."""
    given, wanted, dtype = c.quant(0), output_quant(c), c.target().dtype
    low, high = _range(dtype)
    # TensorFlow Lite takes no other output.
    good = float(scale_of(wanted)) == 1 / 16 and zero_of(wanted) == high
    c.require(good, f"has an output that is not in steps of 1/16 below {high}")
    step = scale_of(given)
    op = QuantizedLogSoftmax(
        float(scale_of(wanted)), zero_of(wanted), low, high, dtype, float(step)
    )
    return _last_axis(c, lambda x: c.add(op, x, c.constant(_exponentials(step))))


def _last_axis(c: Context, make: Callable[[Value], Value]) -> Value:
    if c.x.type.rank:
        return make(c.x)
    return c.reshape(make(c.reshape(c.x, (1,))), ())


def _fixed_softmax(c: Context, scale: float, beta: float) -> Value:
    q, shift = fp.quantize_multiplier(scale * beta / (10.0 / 65535.0))
    f32 = np.float32
    exponent = interpolation_table(np.exp, (f32(10.0 / 65535.0), 32767), (f32(2.0 / 65535.0), 0))
    distance = np.arange(-65535, 1, dtype=np.int64)
    place = np.clip(fp.multiply(distance, q, shift) + 32767, -32768, 32767)
    terms = interpolate(exponent, place)
    reciprocal = interpolation_table(
        lambda x: 1 / (1 + x), (f32(1.0 / 65535.0), -32768), (f32(2.0 / 65535.0), 0)
    )
    tables = [c.constant(t.astype(np.int32), "table") for t in (terms, reciprocal)]
    return _last_axis(c, lambda x: c.add(FixedSoftmax(), x, *tables))


@quantized("L2_NORMALIZATION")
def l2_normalization(c: Context) -> Value:
    """Integers times the integer inverse root of the sum of their squares, along the last axis."""
    c.require(not c.options["fused_activation_function"], "has a fused activation")
    wanted, middle = output_quant(c), 128 if c.x.type.dtype is DType.UINT8 else 0
    good = float(scale_of(wanted)) == 2.0**-7 and zero_of(wanted) == middle
    c.require(good, f"has an output of {c.x.type.dtype.value} that is not in steps of 1/128")
    return _last_axis(c, lambda x: c.add(QuantizedL2Normalization(zero_of(c.quant(0))), x))
