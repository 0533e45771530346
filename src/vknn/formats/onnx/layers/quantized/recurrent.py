"""LSTM with weights of 8 bits."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import BYTES, dequantized
from vknn.formats.onnx.layers.quantized.integers import to_bytes
from vknn.formats.onnx.layers.recurrent import recurrent
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.recurrent.rnn import LSTM


@operator("DynamicQuantizeLSTM", 1, inputs=12, outputs=(0, 3), domain=MICROSOFT)
def dynamic_quantize_lstm(c: Context) -> list[Value]:
    """LSTM with weights of 8 bits, whose input and states are rounded to 8 bits by their ranges"""
    w = _weights(c, 1, 8, 9)
    r = _weights(c, 2, 10, 11)
    x = c.x
    if x.type.size:
        x = dequantized(c, *to_bytes(c, x))
    c.inputs = (x, w, r, *c.inputs[3:8])
    # onnxruntime's kernel shares a range between the rows that one of its threads has.
    op = LSTM(input_forget=c.flag("input_forget"), state_rounding="asymmetric")
    return recurrent(c, op, 2)


def _weights(c: Context, number: int, scale: int, zero: int) -> Value:
    """Weights [directions, size, 4 * hidden] of 8 bits as floats [directions, 4 * hidden, size]."""
    codes = c.value(number)
    good = codes.type.dtype in BYTES and codes.type.rank == 3
    c.require(good, f"has the weights {codes.type}")
    directions, _, columns = codes.type.dims
    parts = []
    for value in (c.value(scale), c.value(zero)):
        each = value.type.size // max(directions, 1)
        fits = value.type.size in (directions, directions * columns)
        c.require(fits, f"has the scale or zero point {value.type} for {codes.type}")
        parts.append(c.reshape(value, (directions, 1, each)))
    factor, shift = parts
    if codes.constant is not None and factor.constant is not None and shift.constant is not None:
        whole = codes.constant.astype(np.float32) - shift.constant.astype(np.float32)
        real = (whole * factor.constant).transpose(0, 2, 1)
        return c.constant(np.ascontiguousarray(real), f"weights{number}")
    whole_value = c.add(ew.Sub(), c.cast(codes, DType.FLOAT32), c.cast(shift, DType.FLOAT32))
    return c.transpose(c.add(ew.Mul(), whole_value, factor), (0, 2, 1))
