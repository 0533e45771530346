"""Convolutions and matrix products of floats."""

from __future__ import annotations

import functools

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.convolution.geometry import (
    conv_geometry,
    depthwise_geometry,
    fully_connected_shape,
    fully_connected_weights,
    matrices,
    no_output,
    no_rows,
    rows,
    transposed_geometry,
)
from vknn.formats.tflite.layers.elementwise.activation import CLAMPS, activate
from vknn.formats.tflite.layers.quantized.hybrid import (
    activate_hybrid,
    convolved,
    dense,
    is_hybrid,
    real_weights,
    rounded_images,
)
from vknn.formats.tflite.layers.quantized.hybrid_batches import batches
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.matmul import MatMul


@operator("CONV_2D", inputs=(2, 3))
def conv_2d(c: Context) -> Value:
    """Weights [out, kh, kw, in / groups]; groups follow from the channels."""
    op = Conv(*conv_geometry(c))
    if (nothing := no_output(c)) is not None:
        return nothing
    y = convolved(c, op, c.channels_second(c.x), c.channels_second, _flat(c, c.optional(2)))
    return activate(c, c.channels_last(y))


@operator("DEPTHWISE_CONV_2D", inputs=(2, 3))
def depthwise_conv_2d(c: Context) -> Value:
    """Weights [1, kh, kw, channels * multiplier]: each channel has its own kernels."""
    op = Conv(*depthwise_geometry(c))
    if (nothing := no_output(c)) is not None:
        return nothing
    turned = functools.partial(c.transpose, perm=(3, 0, 1, 2))
    y = convolved(c, op, c.channels_second(c.x), turned, c.optional(2))
    return activate(c, c.channels_last(y))


@operator("TRANSPOSE_CONV", inputs=(3, 4))
def transpose_conv(c: Context) -> Value:
    """Inputs: the output's shape, weights [out, kh, kw, in], x, bias."""
    op = ConvTranspose(*transposed_geometry(c))
    x = rounded_images(c, c.channels_second(c.value(2)), 1)
    w = c.transpose(real_weights(c, 1), (3, 0, 1, 2))
    return activate(c, c.channels_last(c.add(op, x, w, c.optional(3))))


@operator("FULLY_CONNECTED", inputs=(2, 3), outputs=(1, 2))
def fully_connected(c: Context) -> Value:
    """x as rows times weights [units, depth], plus bias."""
    units, depth = fully_connected_weights(c)
    if c.options["weights_format"]:
        c.refuse("shuffled weights")
    if not depth:
        return no_rows(c, units)
    y = dense(c, rows(c, c.x, depth), _flat(c, c.optional(2)))
    y = c.reshape(y, fully_connected_shape(c, c.x, units, depth))
    if is_hybrid(c, 1):
        return activate_hybrid(c, y)
    code = c.options["fused_activation_function"]
    return activate(c, y) if code in (0, *CLAMPS) else c.refuse(f"the fused activation {code}")


def _flat(c: Context, bias: Value | None) -> Value | None:
    return None if bias is None else c.reshape(bias, (bias.type.size,))


@operator("BATCH_MATMUL", inputs=2)
def batch_matmul(c: Context) -> Value:
    """x @ y over the last two axes; the leading ones broadcast.

    TensorFlow Lite differs: by 8-bit matrices with three batch axes it uses sums that it has not
    made.
    """
    matrices(c)
    if is_hybrid(c, 1):
        product = MatMul(transpose_b=c.options["adj_y"])
        return batches(c, c.x, c.options["adj_x"], product)
    return c.add(MatMul(c.options["adj_x"], c.options["adj_y"]), c.x, c.value(1))
