"""BITWISE_XOR and RIGHT_SHIFT, of quantized integers as they are stored."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.bits import BitShift, BitwiseXor


@operator("BITWISE_XOR", inputs=2, takes_quantized=True)
def bitwise_xor(c: Context) -> Value:
    """The bits that are set in one of two integers alone, with NumPy's broadcasting."""
    return c.add(BitwiseXor(), *_operands(c))


@operator("RIGHT_SHIFT", inputs=2, takes_quantized=True)
def right_shift(c: Context) -> Value:
    """Integers moved downwards, which keep their sign; the amount is held within 0 and bits - 1."""
    x, amount = _operands(c)
    low, high = 0.0, 8.0 * x.type.dtype.itemsize - 1
    return c.add(BitShift(left=False), x, c.add(ew.Clip(low, high), amount))


def _operands(c: Context) -> tuple[Value, Value]:
    a, b = c.x, c.value(1)
    types = f"{a.type} and {b.type}"
    c.require(a.type.dtype is b.type.dtype, f"has {types}, which should be of one type")
    try:
        np.broadcast_shapes(a.type.dims, b.type.dims)
    except ValueError:
        c.fail(f"has {types}, whose shapes do not broadcast")
    return a, b
