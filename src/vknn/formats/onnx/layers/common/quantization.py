"""Numbers that integers with a scale and a zero point stand for, and integers that hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear

#: Element types of 8 bits, of which tables have 256 entries.
BYTES = (DType.INT8, DType.UINT8)


def single(c: Context, value: Value | None, what: str) -> Value | None:
    """A scale or zero point of the whole tensor, without axes. Raises Malformed for several."""
    if value is None:
        return None
    c.require(value.type.size == 1, f"has the {what} {value.type}, not one number")
    return c.reshape(value, ())


def shifted(c: Context, value: Value, zero: Value | None, rows: bool = False) -> Value:
    """Integers without their zero point, as int32; ``rows``: a vector has one for each row."""
    wide = c.cast(value, DType.INT32)
    if zero is None or (zero.constant is not None and not zero.constant.any()):
        return wide
    lone = zero.type.rank == 1 and zero.type.size != 1
    zero = c.reshape(zero, (zero.type.size, 1)) if lone and rows else zero
    zero = c.reshape(zero, ()) if zero.type.size == 1 else zero
    return c.add(ew.Sub(), wide, c.cast(zero, DType.INT32))


def dequantized(c: Context, value: Value, scale: Value, zero: Value | None) -> Value:
    """(value - zero point) * scale as float32; both are the whole tensor's."""
    whole = shifted(c, value, single(c, zero, "zero point"))
    one = single(c, scale, "scale")
    assert one is not None
    return c.add(DequantizeLinear(), whole, c.cast(one, DType.FLOAT32))


def quantized(c: Context, real: Value, scale: Value, zero: Value | None, to: DType) -> Value:
    """round(real / scale) + zero point, held within the range of ``to``."""
    info, one = np.iinfo(to.numpy), single(c, scale, "scale")
    assert one is not None
    op = QuantizeLinear(to, int(info.min), int(info.max))
    return c.add(op, real, c.cast(one, DType.FLOAT32), single(c, zero, "zero point"))


def rounded(c: Context, real: Value, zero: Value | None, to: DType) -> Value:
    """round(real + zero point), held within the range of ``to``.

    Some kernels of onnxruntime add the zero point first, which decides where halves go.
    """
    if zero is not None:
        real = c.add(ew.Add(), real, c.cast(c.reshape(zero, ()), DType.FLOAT32))
    return quantized(c, real, c.scalar(1.0), None, to)


def mapped(
    c: Context, number: int, to: tuple[int, int], function: Callable[[Value], Value]
) -> Value:
    """A function of the integers of three inputs from ``number`` on: values, scale, zero point.

    ``to``: the numbers of the inputs with scale and zero point of the result, which has the same
    element type. Where all of these are constants the results are looked up.
    """
    x, scale, zero = c.value(number), c.value(number + 1), c.optional(number + 2)
    to_scale, to_zero = c.value(to[0]), c.optional(to[1])
    kind = x.type.dtype
    c.require(kind in BYTES, f"takes integers of 8 bits, not {x.type}")

    def result(value: Value) -> Value:
        found = function(dequantized(c, value, scale, zero))
        return quantized(c, found, to_scale, to_zero, kind)

    given = (scale, zero, to_scale, to_zero)
    if any(v is not None and v.constant is None for v in given):
        return result(x)
    info = np.iinfo(kind.numpy)
    every = c.constant(np.arange(info.min, info.max + 1).astype(kind.numpy), "every")
    table = result(every)
    assert table.constant is not None and every.constant is not None
    if np.array_equal(table.constant, every.constant):
        return x
    return c.add(TableLookup(int(info.min)), x, table)
