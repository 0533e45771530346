"""Weights, biases, multipliers and zero points of convolutions and matrix products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import (
    activation_bounds,
    output_quant,
    scale_of,
    zero_of,
)
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.convolution import bias_words

#: Types of a bias by the number that options state; for other numbers the tensor says it alone.
_BIAS_TYPES = {2: DType.INT32, 4: DType.INT64}


def weights(c: Context, number: int) -> Value:
    """Weights of 8 bits with their zero point subtracted.

    Their bytes are read as uint8 beside uint8 data and as int8 beside others, whatever their
    declared type is. FULLY_CONNECTED ignores zero points of per-channel weights.
    """
    w, quant = c.value(number), c.quant(number)
    c.require(w.type.dtype in (DType.INT8, DType.UINT8), f"has weights {w.type}")
    wanted = DType.UINT8 if c.x.type.dtype is DType.UINT8 else DType.INT8
    by_channel = quant.per_channel and DType.UINT8 in (wanted, w.type.dtype)
    c.require(not by_channel, f"has weights {w.type} with scales by channel for {c.x.type}")
    if w.type.dtype is not wanted and c.operator.code != "TRANSPOSE_CONV":
        w = c.constant(c.data(number).view(wanted.numpy), "weights")
    zeros = quant.zero_point
    if quant.per_channel and c.operator.code == "FULLY_CONNECTED":
        zeros = np.zeros_like(zeros)
    if not zeros.any() and w.type.dtype is DType.INT8:
        return w
    c.require(zeros.size == 1, "has weights with zero points by channel")
    zero = int(zeros[0])
    if w.constant is not None:
        return c.constant(w.constant.astype(np.int16) - np.int16(zero), "weights")
    moved = c.add(ew.Sub(), c.add(ew.Cast(DType.INT32), w), c.scalar(zero, DType.INT32))
    return c.add(ew.Cast(DType.INT16), moved)


def few_bits(c: Context, number: int) -> int:
    """Bits of constant weights that have fewer than 8; 0 of others."""
    packed = c.source(number).sub_byte
    return 0 if packed is None else packed.bits


def multipliers(c: Context, data: int, number: int) -> tuple[Value, Value]:
    """Multipliers and shifts by channel, in fixed point, for products of two inputs.

    The product of the scales is rounded to float32 for convolutions of uint8 and for shuffled
    weights.
    """
    x, w, y = scale_of(c.quant(data)), c.quant(number).scale.reshape(-1), scale_of(output_quant(c))
    scale = np.float64(x) * w.astype(np.float64)
    conv = c.value(data).type.dtype is DType.UINT8 and "CONV" in c.operator.code
    if conv or c.options.get("weights_format"):
        scale = scale.astype(np.float32).astype(np.float64)
    q, shift = fp.quantize_multiplier(scale / np.float64(y))
    return c.constant(q, "multiplier"), c.constant(shift, "shift")


def bias(c: Context, number: int, wide: bool = True) -> Value | None:
    """The bias as a vector; of int64 as two rows of words (``wide``) or as the low words."""
    value = c.optional(number)
    if value is None or value.type.dtype is DType.INT32:
        return None if value is None else c.reshape(value, (value.type.size,))
    c.require(value.type.dtype is DType.INT64, f"has a bias {value.type}")
    words = bias_words(c.data(number).reshape(-1))
    return c.constant(words if wide else words[0], "bias")


def settings(c: Context, data: int, bias_number: int) -> dict[str, Any]:
    """Keyword arguments of QuantizedConv and QuantizedGemm: zero points, range, dtype, rounding.

    Sums of int16 data have 64 bits unless the options state a bias of int32, also without a bias.
    """
    low, high = activation_bounds(c, c.options.get("fused_activation_function", 0))
    dtype, given = c.target().dtype, c.optional(bias_number)
    stated = _BIAS_TYPES.get(c.options.get("quantized_bias_type", 0))
    if c.value(data).type.dtype is DType.INT16 and stated is not None and given is not None:
        found = given.type.dtype
        c.require(found is stated, f"has a bias of {found.value}, and states {stated.value}")
    wide = dtype is DType.INT16 and stated is not DType.INT32
    return {
        "zero_in": zero_of(c.quant(data)),
        "zero_out": zero_of(output_quant(c)),
        "low": low,
        "high": high,
        "dtype": dtype,
        "rounding": "wide" if wide else "double",
    }
