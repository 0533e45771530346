"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV on floats, by weights of floats or of 8 bits."""

from __future__ import annotations

import functools

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import activate
from vknn.formats.tflite.layers.common.convolution import (
    conv_geometry,
    depthwise_geometry,
    empty_conv_output,
    transposed_geometry,
)
from vknn.formats.tflite.layers.quantized.hybrid import (
    convolve,
    dequantized_weights,
    rounded_images,
)
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose


@operator("CONV_2D", inputs=(2, 3))
def conv_2d(c: Context) -> Value:
    """2-D convolution; weights [out, kh, kw, in / groups], groups from the channels of the data."""
    op = Conv(*conv_geometry(c))
    if (empty := empty_conv_output(c)) is not None:
        return empty
    y = convolve(c, op, c.channels_second(c.x), c.channels_second, _flat(c, c.optional(2)))
    return activate(c, c.channels_last(y))


@operator("DEPTHWISE_CONV_2D", inputs=(2, 3))
def depthwise_conv_2d(c: Context) -> Value:
    """Depthwise convolution; weights [1, kh, kw, channels * multiplier]."""
    op = Conv(*depthwise_geometry(c))
    if (empty := empty_conv_output(c)) is not None:
        return empty
    reorder = functools.partial(c.transpose, perm=(3, 0, 1, 2))
    y = convolve(c, op, c.channels_second(c.x), reorder, c.optional(2))
    return activate(c, c.channels_last(y))


@operator("TRANSPOSE_CONV", inputs=(3, 4))
def transpose_conv(c: Context) -> Value:
    """Transposed 2-D convolution; inputs: output shape, weights [out, kh, kw, in], x, bias."""
    op = ConvTranspose(*transposed_geometry(c))
    x = rounded_images(c, c.channels_second(c.value(2)), 1)
    w = c.transpose(dequantized_weights(c, 1), (3, 0, 1, 2))
    return activate(c, c.channels_last(c.add(op, x, w, c.optional(3))))


def _flat(c: Context, bias: Value | None) -> Value | None:
    return None if bias is None else c.reshape(bias, (bias.type.size,))
