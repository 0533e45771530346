"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV on quantized integers.

TensorFlow Lite's kernels sum products of integers exactly and bring the sums to the scale of the
output by a fixed-point multiplier: rounded twice in 32 bits, or, for 64-bit sums of int16 data,
once, with 16 bits of the multiplier.
"""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.convolution import (
    conv_geometry,
    depthwise_geometry,
    empty_conv_output,
    transposed_geometry,
)
from vknn.formats.tflite.layers.quantized.operands import (
    bias,
    few_bits,
    multipliers,
    settings,
    weights,
)
from vknn.formats.tflite.registry import quantized
from vknn.graph import Value
from vknn.ops.quantized.convolution import QuantizedConv, QuantizedConvTranspose


@quantized("CONV_2D")
def conv_2d(c: Context) -> Value:
    """2-D convolution; int8 and int16 quantized by channel or by tensor, uint8 by tensor."""
    op = QuantizedConv(*conv_geometry(c), **settings(c, 0, 2), weight_bits=few_bits(c, 1))
    if (empty := empty_conv_output(c)) is not None:
        return empty
    x, w = c.channels_second(c.x), c.channels_second(weights(c, 1))
    return c.channels_last(c.add(op, x, w, bias(c, 2), *multipliers(c, 0, 1)))


@quantized("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(c: Context) -> Value:
    """Depthwise 2-D convolution."""
    op = QuantizedConv(*depthwise_geometry(c), **settings(c, 0, 2), weight_bits=few_bits(c, 1))
    if (empty := empty_conv_output(c)) is not None:
        return empty
    x, w = c.channels_second(c.x), c.transpose(weights(c, 1), (3, 0, 1, 2))
    return c.channels_last(c.add(op, x, w, bias(c, 2), *multipliers(c, 0, 1)))


@quantized("TRANSPOSE_CONV")
def transpose_conv(c: Context) -> Value:
    """Transposed 2-D convolution."""
    op = QuantizedConvTranspose(*transposed_geometry(c), **settings(c, 2, 3))
    x, w = c.channels_second(c.value(2)), c.transpose(weights(c, 1), (3, 0, 1, 2))
    return c.channels_last(c.add(op, x, w, bias(c, 3), *multipliers(c, 2, 1)))
