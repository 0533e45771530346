"""Attention of com.microsoft with data and weights of 8 bits."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers import operator_type
from vknn.formats.onnx.layers.common.quantization import BYTES, dequantized, shifted
from vknn.formats.onnx.registry import MICROSOFT, Result, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew


@operator("QAttention", 1, inputs=(5, 9), outputs=(1, 2), domain=MICROSOFT)
def quantized_attention(c: Context) -> Result:
    """Attention of a sequence to itself, its data and weights of 8 bits made floats"""
    found = operator_type(MICROSOFT, "Attention", 1)
    if found is None:
        c.refuse("attention of quantized data")
    bias = c.value(2)
    kind = bias.type.dtype
    x = c.cast(dequantized(c, c.x, c.value(3), c.optional(6)), kind)
    c.inputs = (x, c.cast(_weights(c), kind), bias, c.optional(5), c.optional(8))
    return found.convert(c)


def _weights(c: Context) -> Value:
    """Weights [inputs, outputs] as floats; scale and zero point are one, or one for a column."""
    codes, scale, zero = c.value(1), c.value(4), c.optional(7)
    good = codes.type.dtype in BYTES and codes.type.rank == 2
    c.require(good, f"has the weights {codes.type}")
    columns = codes.type.dims[1]
    for value in (scale, zero):
        fits = value is None or value.type.size in (1, columns)
        c.require(fits, f"has a scale or zero point that does not suit {codes.type}")
    known = [v is None or v.constant is not None for v in (codes, scale, zero)]
    if all(known):
        assert codes.constant is not None and scale.constant is not None
        whole = codes.constant.astype(np.float32)
        if zero is not None and zero.constant is not None:
            whole = whole - zero.constant.astype(np.float32).reshape(-1)
        return c.constant(whole * scale.constant.astype(np.float32).reshape(-1), "weights")
    flat = c.cast(c.reshape(scale, (scale.type.size,)), DType.FLOAT32)
    whole_value = c.cast(shifted(c, codes, zero), DType.FLOAT32)
    return c.add(ew.Mul(), whole_value, flat)
