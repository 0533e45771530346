"""Convolutions and matrix products of quantized integers.

TensorFlow Lite's kernels add up integers, exactly, and bring the sums to the scale of the output by
a fixed-point multiplier: rounded twice in 32 bits, or for 64-bit sums of int16 data once, with 16
bits of the multiplier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

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
from vknn.formats.tflite.layers.quantized.tables import bounds, output_quant, scale_of, zero_of
from vknn.formats.tflite.registry import quantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.convolution import QuantizedConv, QuantizedConvTranspose, bias_words
from vknn.ops.quantized.matmul import QuantizedGemm


def weights(c: Context, number: int) -> Value:
    """Weights of 8 bits without their zero point.

    Their bytes are taken for uint8 beside uint8 data and for int8 beside others, whatever the file
    says of them. FULLY_CONNECTED passes over zero points of weights that have them by channel.
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


def multipliers(c: Context, data: int, number: int) -> tuple[Value, Value]:
    """Multipliers and shifts for the sums of inputs ``data`` and ``number``, one a channel.

    The product of the scales is rounded to float32 for convolutions of uint8 and shuffled weights.
    """
    x, w, y = scale_of(c.quant(data)), c.quant(number).scale.reshape(-1), scale_of(output_quant(c))
    scale = np.float64(x) * w.astype(np.float64)
    conv = c.value(data).type.dtype is DType.UINT8 and "CONV" in c.operator.code
    if conv or c.options.get("weights_format"):
        scale = scale.astype(np.float32).astype(np.float64)
    q, shift = fp.quantize_multiplier(scale / np.float64(y))
    return c.constant(q, "multiplier"), c.constant(shift, "shift")


def bias(c: Context, number: int, wide: bool = True) -> Value | None:
    """The bias; one of int64 as two rows of words where the sums have 64 bits."""
    value = c.optional(number)
    if value is None or value.type.dtype is DType.INT32:
        return None if value is None else c.reshape(value, (value.type.size,))
    c.require(value.type.dtype is DType.INT64, f"has a bias {value.type}")
    words = bias_words(c.data(number).reshape(-1))
    return c.constant(words if wide else words[0], "bias")


def settings(c: Context, data: int, bias_number: int) -> dict[str, Any]:
    """Zero points, range, dtype and rounding, as the ops name them."""
    low, high = bounds(c, c.options.get("fused_activation_function", 0))
    dtype, given = c.target().dtype, c.optional(bias_number)
    wide = dtype is DType.INT16 and (given is None or given.type.dtype is DType.INT64)
    return {
        "zero_in": zero_of(c.quant(data)),
        "zero_out": zero_of(output_quant(c)),
        "low": low,
        "high": high,
        "dtype": dtype,
        "rounding": "wide" if wide else "double",
    }


@quantized("CONV_2D")
def conv_2d(c: Context) -> Value:
    """int8 and int16 by channels or by tensor, uint8 by tensor."""
    op = QuantizedConv(*conv_geometry(c), **settings(c, 0, 2))
    if (nothing := no_output(c)) is not None:
        return nothing
    x, w = c.channels_second(c.x), c.channels_second(weights(c, 1))
    return c.channels_last(c.add(op, x, w, bias(c, 2), *multipliers(c, 0, 1)))


@quantized("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(c: Context) -> Value:
    """Each channel has its own kernels."""
    op = QuantizedConv(*depthwise_geometry(c), **settings(c, 0, 2))
    if (nothing := no_output(c)) is not None:
        return nothing
    x, w = c.channels_second(c.x), c.transpose(weights(c, 1), (3, 0, 1, 2))
    return c.channels_last(c.add(op, x, w, bias(c, 2), *multipliers(c, 0, 1)))


@quantized("TRANSPOSE_CONV")
def transpose_conv(c: Context) -> Value:
    """Each input adds its own copy of the kernel."""
    op = QuantizedConvTranspose(*transposed_geometry(c), **settings(c, 2, 3))
    x, w = c.channels_second(c.value(2)), c.transpose(weights(c, 1), (3, 0, 1, 2))
    return c.channels_last(c.add(op, x, w, bias(c, 3), *multipliers(c, 2, 1)))


@quantized("FULLY_CONNECTED")
def fully_connected(c: Context) -> Value | tuple[Value, ...]:
    """Rows by weights [units, depth]. The sums have 32 bits, of int16 data too; rounded once."""
    units, depth = fully_connected_weights(c)
    if c.source(1).narrow is not None and c.target().dtype is not c.x.type.dtype:
        c.refuse(f"{c.x.type} by weights of {c.source(1).type_name} to {c.target().dtype.value}")
    if not depth:
        return no_rows(c, units)
    if c.value(1).type.dtype is DType.INT16:
        return _wide_weights(c, units, depth)
    given = settings(c, 0, 2) | {"rounding": "single"}
    op = QuantizedGemm(**given, transpose_b=True)
    if c.options["weights_format"]:
        return _shuffled(c, op, units, depth)
    y = c.add(op, rows(c, c.x, depth), weights(c, 1), bias(c, 2, wide=False), *multipliers(c, 0, 1))
    return c.reshape(y, fully_connected_shape(c, c.x, units, depth))


def _wide_weights(c: Context, units: int, depth: int) -> Value:
    """Of int16 data by int16 weights the sums have 64 bits."""
    x, quant = rows(c, c.x, depth), c.quant(1)
    good = c.x.type.dtype is DType.INT16 and c.target().dtype is DType.INT16
    c.require(good, f"multiplies {c.x.type} by {c.value(1).type}")
    given = settings(c, 0, 2) | {"rounding": "wide"}
    zero = 0 if quant.per_channel else zero_of(quant)
    op = QuantizedGemm(**given, zero_b=zero, transpose_b=True)
    y = c.add(op, x, c.value(1), bias(c, 2), *multipliers(c, 0, 1))
    return c.reshape(y, fully_connected_shape(c, c.x, units, depth))


def _shuffled(c: Context, op: QuantizedGemm, units: int, depth: int) -> tuple[Value, ...]:
    """Weights in blocks of 4 rows by 16 columns, all codes with their sign flipped; rounded twice.

    The second output is what TensorFlow Lite's kernel keeps of the data in between: blocks of the
    same kind where there are 4 rows.
    """
    x, w = rows(c, c.x, depth), c.data(1)
    count = x.type.dims[0]
    c.require(units % 4 == 0 and depth % 16 == 0 and count in (1, 4),
              f"has shuffled weights [{units}, {depth}] for {count} rows")  # fmt: skip
    c.require(x.type.dtype is DType.UINT8 and w.dtype == np.uint8, f"shuffles {x.type}")
    blocks = w.reshape(units // 4, depth // 16, 4, 16).swapaxes(1, 2).reshape(units, depth)
    op = replace(op, zero_in=128, rounding="double")
    signed = c.constant(blocks.view(np.int8), "weights")
    y = c.add(op, x, signed, bias(c, 2, wide=False), *multipliers(c, 0, 1))
    y = c.reshape(y, fully_connected_shape(c, c.x, units, depth))
    if len(c.operator.outputs) == 1:
        return (y,)
    flipped = c.add(TableLookup(), x, c.constant(np.arange(256, dtype=np.uint8) ^ 0x80, "signs"))
    if count == 4:
        flipped = c.transpose(c.reshape(flipped, (4, depth // 16, 16)), (1, 0, 2))
    return y, c.reshape(flipped, c.x.type.dims)


#: The types of the operands of BATCH_MATMUL, and of its output.
_PRODUCTS = (
    ((DType.INT8, DType.INT8), DType.INT8),
    ((DType.INT8, DType.INT8), DType.INT32),
    ((DType.INT16, DType.INT16), DType.INT16),
    ((DType.INT16, DType.INT8), DType.INT16),
)


@quantized("BATCH_MATMUL")
def batch_matmul(c: Context) -> Value:
    """Both operands are quantized. An output of int32 has the sums of the codes themselves."""
    matrices(c)
    types = tuple(t.type.dtype for t in (c.x, c.value(1))), c.target().dtype
    c.require(types in _PRODUCTS, f"makes {types[1].value} of {c.x.type} and {c.value(1).type}")
    if c.x.type.dtype is DType.INT16:
        zeros = [zero_of(q) for q in (c.quant(0), c.quant(1), output_quant(c))]
        c.require(not any(zeros), f"has int16 with the zero points {zeros}")
    turned = {"transpose_a": c.options["adj_x"], "transpose_b": c.options["adj_y"]}
    if c.target().dtype is DType.INT32:
        low, one = fp.INT32_MIN, c.constant(np.ones(1, np.int32), "multiplier")
        plain = QuantizedGemm(0, 0, low, fp.INT32_MAX, DType.INT32, "none", **turned)
        return c.add(plain, c.x, c.value(1), None, one, one)
    op = QuantizedGemm(**settings(c, 0, 2), zero_b=zero_of(c.quant(1)), **turned)
    return c.add(op, c.x, c.value(1), None, *multipliers(c, 0, 1))
