"""Exact products and convolutions of integers less their zero points, as int32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import BYTES, shifted
from vknn.formats.onnx.layers.matmul import product
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.ops.reduction import ReduceSum


def integer_product(
    c: Context, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None
) -> Value:
    """(a - zero point) @ (b - zero point) as numpy.matmul has it.

    A zero point has one element, or one for each row of a and each column of b.
    """
    c.require(a.type.rank > 0 and b.type.rank > 0, f"takes no {a.type} and {b.type}")
    check_zeros(c, a, a_zero, "a", -2)
    check_zeros(c, b, b_zero, "b", -1)
    weights = _weights(c, b, b_zero)
    if a.type.dtype not in BYTES or weights is None:
        return product(c, shifted(c, a, a_zero, rows=True), shifted(c, b, b_zero))
    b, zero_b = weights
    known = constant_zero(a_zero)
    found = _sums(c, a, b, known or 0, zero_b)
    if known is not None or a_zero is None:
        return found
    columns = shifted(c, b, c.constant(np.asarray(zero_b, np.int32), "zero"))
    column_axis = max(b.type.rank - 2, 0)
    totals = c.add(ReduceSum((column_axis,), b.type.rank > 1), columns)
    zero = c.cast(a_zero, DType.INT32)
    rows = zero.type.rank == 1 and zero.type.size != 1
    zero = c.reshape(zero, (zero.type.size, 1)) if rows else zero
    zero = c.reshape(zero, ()) if zero.type.size == 1 else zero
    excess = c.add(ew.Mul(), totals, zero)
    if found.type.rank < excess.type.rank:
        excess = c.reshape(excess, found.type.dims)
    return c.add(ew.Sub(), found, excess)


def check_zeros(c: Context, x: Value, zero: Value | None, name: str, axis: int) -> None:
    """Check of a zero point: one, or one for each place along an axis of ``x``."""
    if zero is None or zero.type.size == 1:
        return
    dims = x.type.dims
    matrix = len(dims) > 1
    count = dims[axis] if matrix else 1
    last = (count, 1) if axis == -2 else (1, count)
    good = zero.type.dims in ((count,), (*dims[:-2], *last), last)
    c.require(good, f"has the zero point {zero.type} for {name} {x.type}, not 1 or {count}")


def constant_zero(zero: Value | None) -> int | None:
    """The number of a zero point of one element that is known; 0 where there is none."""
    if zero is None:
        return 0
    if zero.constant is None or zero.type.size != 1:
        return None
    return int(zero.constant.reshape(-1)[0])


def _weights(c: Context, b: Value, zero: Value | None) -> tuple[Value, int] | None:
    """b and the one zero point it has left; None where the zero points are no constants."""
    if b.type.dtype not in BYTES:
        return None
    known = constant_zero(zero)
    if known is not None:
        return b, known
    if zero is None or zero.constant is None or b.constant is None or b.type.rank < 2:
        return None
    shift = zero.constant.astype(np.int16)
    return c.constant(b.constant.astype(np.int16) - shift, "shifted"), 0


def _sums(c: Context, a: Value, b: Value, zero_a: int, zero_b: int) -> Value:
    op = QuantizedGemm(
        zero_in=zero_a, low=fp.INT32_MIN, high=fp.INT32_MAX, dtype=DType.INT32, rounding="none",
        zero_b=zero_b,
    )  # fmt: skip
    return _of_vectors(c, op, a, b, unit_multiplier(c))


@dataclass(frozen=True)
class ByteTarget:
    """Zero point, range and type of a quantized result."""

    zero: int
    low: int
    high: int
    dtype: DType

    @classmethod
    def of(cls, zero: Value) -> ByteTarget | None:
        """That of a zero point of 8 bits; None where it is no constant of one element."""
        known = constant_zero(zero)
        if known is None or zero.type.dtype not in BYTES:
            return None
        info = np.iinfo(zero.type.dtype.numpy)
        return cls(known, int(info.min), int(info.max), zero.type.dtype)


def requantized_product(
    c: Context, a: Value, b: Value, zeros: tuple[Value, Value, Value], factor: Value
) -> Value | None:
    """A product of integers of 8 bits as one op; None where not all but a and b are constants.

    ``zeros``: of a, b and the result. ``factor``: of the sums, one or one for each column.
    """
    target, weights, zero_a = (
        ByteTarget.of(zeros[2]),
        _weights(c, b, zeros[1]),
        constant_zero(zeros[0]),
    )
    factors = factor.constant
    if a.type.dtype not in BYTES or target is None or weights is None or zero_a is None:
        return None
    if factors is None or (factors.size > 1 and factors.shape[-1] != factors.size):
        return None
    b, zero_b = weights
    op = QuantizedGemm(
        zero_in=zero_a, zero_out=target.zero, low=target.low, high=target.high,
        dtype=target.dtype, rounding="float", zero_b=zero_b,
    )  # fmt: skip
    return _of_vectors(c, op, a, b, float_multiplier(c, factors))


def float_multiplier(c: Context, factors: np.ndarray) -> tuple[Value, Value]:
    """Multiplier and shift of sums that are multiplied by floats."""
    bits = fp.float_bits(factors.astype(np.float32).reshape(-1))
    held = c.constant(bits, "multiplier")
    return held, c.constant(np.zeros(len(bits), np.int32), "shift")


def _of_vectors(
    c: Context, op: QuantizedGemm, a: Value, b: Value, multiplier: tuple[Value, Value]
) -> Value:
    """The product as numpy.matmul has it: a vector gets an axis for the time of the product."""
    row, column = a.type.rank == 1, b.type.rank == 1
    a = c.reshape(a, (1, *a.type.dims)) if row else a
    b = c.reshape(b, (*b.type.dims, 1)) if column else b
    found = c.add(op, a, b, None, *multiplier)
    lead, (rows, columns) = found.type.dims[:-2], found.type.dims[-2:]
    kept = (*lead, *([] if row else [rows]), *([] if column else [columns]))
    return c.reshape(found, kept)


def unit_multiplier(c: Context) -> tuple[Value, Value]:
    """Multiplier and shift of sums that are not requantized."""
    one = c.constant(np.ones(1, np.int32), "multiplier")
    return one, c.constant(np.zeros(1, np.int32), "shift")
