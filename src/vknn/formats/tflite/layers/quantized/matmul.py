"""FULLY_CONNECTED and BATCH_MATMUL on quantized integers (sums and rounding: see ``operands``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.matmul import (
    check_matrices,
    fully_connected_shape,
    fully_connected_weights,
    rows,
    zero_depth_output,
)
from vknn.formats.tflite.layers.common.quantization import (
    output_quant,
    zero_of,
)
from vknn.formats.tflite.layers.quantized.operands import bias, multipliers, settings, weights
from vknn.formats.tflite.registry import quantized
from vknn.graph import DType, Value
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.matmul import QuantizedGemm


@quantized("FULLY_CONNECTED")
def fully_connected(c: Context) -> Value | tuple[Value, ...]:
    """Rows by weights [units, depth]; sums of 32 bits, rounded once.

    Sums of int16 data have 64 bits unless the options state a bias of int32.
    """
    units, depth = fully_connected_weights(c)
    if c.source(1).sub_byte is not None and c.target().dtype is not c.x.type.dtype:
        c.refuse(f"{c.x.type} by weights of {c.source(1).type_name} to {c.target().dtype.value}")
    if c.source(1).blocks is not None:
        c.refuse(f"{c.x.type} by weights with scales of blocks")
    if not depth:
        return zero_depth_output(c, units)
    if c.value(1).type.dtype is DType.INT16:
        return _int16_weights(c, units, depth)
    given = settings(c, 0, 2)
    wide = given["rounding"] == "wide" and c.x.type.dtype is DType.INT16
    op = QuantizedGemm(**given | {"rounding": "long" if wide else "single"}, transpose_b=True)
    if c.options["weights_format"]:
        return _shuffled_weights(c, op, units, depth)
    y = c.add(op, rows(c, c.x, depth), weights(c, 1), bias(c, 2, wide), *multipliers(c, 0, 1))
    return c.reshape(y, fully_connected_shape(c, c.x, units, depth))


def _int16_weights(c: Context, units: int, depth: int) -> Value:
    """int16 data by int16 weights, with sums of 64 bits."""
    x, quant = rows(c, c.x, depth), c.quant(1)
    good = c.x.type.dtype is DType.INT16 and c.target().dtype is DType.INT16
    c.require(good, f"multiplies {c.x.type} by {c.value(1).type}")
    given = settings(c, 0, 2) | {"rounding": "wide"}
    zero = 0 if quant.per_channel else zero_of(quant)
    op = QuantizedGemm(**given, zero_b=zero, transpose_b=True)
    y = c.add(op, x, c.value(1), bias(c, 2), *multipliers(c, 0, 1))
    return c.reshape(y, fully_connected_shape(c, c.x, units, depth))


def _shuffled_weights(c: Context, op: QuantizedGemm, units: int, depth: int) -> tuple[Value, ...]:
    """Weights in blocks of 4 rows by 16 columns, stored with flipped sign bits; sums rounded twice.

    The second output is the workspace of TensorFlow Lite's kernel: the data with flipped sign bits,
    in the same blocks where there are 4 rows.
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


#: Types of the operands and of the output of BATCH_MATMUL.
_PRODUCTS = (
    ((DType.INT8, DType.INT8), DType.INT8),
    ((DType.INT8, DType.INT8), DType.INT32),
    ((DType.INT16, DType.INT16), DType.INT16),
    ((DType.INT16, DType.INT8), DType.INT16),
)


@quantized("BATCH_MATMUL")
def batch_matmul(c: Context) -> Value:
    """Product of two quantized operands; an output of int32 holds the unscaled sums."""
    check_matrices(c)
    types = tuple(t.type.dtype for t in (c.x, c.value(1))), c.target().dtype
    c.require(types in _PRODUCTS, f"makes {types[1].value} of {c.x.type} and {c.value(1).type}")
    if c.x.type.dtype is DType.INT16:
        zeros = [zero_of(q) for q in (c.quant(0), c.quant(1), output_quant(c))]
        c.require(not any(zeros), f"has int16 with the zero points {zeros}")
    transposed = {"transpose_a": c.options["adj_x"], "transpose_b": c.options["adj_y"]}
    if c.target().dtype is DType.INT32:
        low, one = fp.INT32_MIN, c.constant(np.ones(1, np.int32), "multiplier")
        plain = QuantizedGemm(0, 0, low, fp.INT32_MAX, DType.INT32, "none", **transposed)
        return c.add(plain, c.x, c.value(1), None, one, one)
    op = QuantizedGemm(**settings(c, 0, 2), zero_b=zero_of(c.quant(1)), **transposed)
    return c.add(op, c.x, c.value(1), None, *multipliers(c, 0, 1))
