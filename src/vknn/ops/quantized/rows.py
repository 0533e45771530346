"""Ops on rows of quantized integers: softmax, normalisations, products rounded at each step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import by_columns, columns, in_blocks
from vknn.ops.common.checks import arguments, require
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.gemmlowp import Word

_NARROW = (DType.INT8, DType.UINT8)
#: Entries of the table of exponentials, and of that of reciprocals.
FLOAT_TABLE, FIXED_TABLE, RECIPROCALS = 256, 65536, 513
#: Integer bits of the sum of a row of FixedByteSoftmax.
SUM_BITS = 12


def _largest(x: np.ndarray) -> np.ndarray:
    """The largest element of each row, as int64 [..., 1]; without elements none."""
    return np.asarray((x.max(-1, keepdims=True) if x.size else x[..., :1]).astype(np.int64))


def _row_sums(x: np.ndarray, terms: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Sums along the last axis of what ``terms`` makes of its elements, as int64 [..., 1]."""
    total = np.zeros((*x.shape[:-1], 1), np.int64)
    for part in columns(x.shape):
        total += terms(x[..., part]).sum(-1, keepdims=True)
    return total


@attributes
class QuantizedLogSoftmax(Op):
    """Logarithm of the softmax of 8-bit integers along the last axis, in float32.

    Inputs x, table float32 [256]: entry 255 - d is the exponential for a distance d below the
    largest. clip(rint(step * x - (step_in * max + ln(sum)) / scale) + zero, low, high) as
    ``dtype`` where step = step_in / scale, halves to even, the sum of exponentials in order.
    """

    scale: float
    zero: int
    low: int
    high: int
    dtype: DType
    step_in: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, table = arguments(self, inputs, 2)
        require(x.dtype in _NARROW and x.rank > 0, f"QuantizedLogSoftmax: takes rows, not {x}")
        require(table.size == FLOAT_TABLE, f"QuantizedLogSoftmax: the table is {table}")
        info = np.iinfo(self.dtype.numpy)
        inside = info.min <= self.zero <= info.max
        require(inside, f"QuantizedLogSoftmax: a zero point {self.zero} of {self.dtype.value}")
        return (x.with_dtype(self.dtype),)

    @in_blocks(whole=lambda *_: (-1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, table = arguments(self, inputs, 2)
        largest, f32 = _largest(x), np.float32
        total = np.zeros(largest.shape, f32)
        for part in columns(x.shape):
            terms = table[255 - (largest - x[..., part])]
            # A running sum keeps the order of the terms, in float32.
            terms[..., :1] += total
            total = np.cumsum(terms, axis=-1, dtype=f32)[..., -1:]
        with np.errstate(all="ignore"):
            step = f32(self.step_in) / f32(self.scale)
            top = (largest.astype(f32) * f32(self.step_in) + np.log(total)) / f32(self.scale)

        def finished(codes: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                whole = np.rint(codes.astype(f32) * step - top).astype(np.int64) + self.zero
            return np.clip(whole, self.low, self.high)

        return (by_columns(x, self.dtype.numpy, finished),)


@attributes
class FixedByteSoftmax(Op):
    """Softmax of 8-bit integers along the last axis, in 32-bit fixed point.

    Inputs x, table int32 [256]: entry 255 - d is the exponential, in 31 fractional bits, for a
    distance d below the largest; 0 for distances that count nothing. Sums have 12 integer bits. The
    result, of 8 or 16 bits, has all of them behind the point, above the type's lowest number.
    """

    dtype: DType

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, table = arguments(self, inputs, 2)
        name = self.type_name
        require(x.dtype in _NARROW and x.rank > 0, f"{name}: takes rows of 8 bits, not {x}")
        require(table.dtype is DType.INT32 and table.size == 256, f"{name}: the table is {table}")
        require(self.dtype in (*_NARROW, DType.INT16), f"{name}: gives {self.dtype.value}")
        return (x.with_dtype(self.dtype),)

    @in_blocks(whole=lambda *_: (-1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, table = arguments(self, inputs, 2)
        word, info, largest = Word(32), np.iinfo(self.dtype.numpy), _largest(x)

        def terms(codes: np.ndarray) -> np.ndarray:
            return np.asarray(table[255 - (largest - codes)].astype(np.int64))

        total = _row_sums(x, lambda codes: word.shifted(terms(codes), -SUM_BITS)) & 0xFFFFFFFF
        zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
        # The sum is (1 + f) * 2 ** (SUM_BITS - zeros).
        inverse = word.one_over_one_plus(((total << zeros) & 0xFFFFFFFF) - (1 << 31))
        right = SUM_BITS - zeros + 31 - info.bits

        def finished(codes: np.ndarray) -> np.ndarray:
            product = word.product(inverse, terms(codes))
            y = fp.rounding_divide_by_pot(product, right) + info.min
            return np.clip(y, info.min, info.max)

        return (by_columns(x, self.dtype.numpy, finished),)


@attributes
class FixedSoftmax(Op):
    """Softmax of int16 along the last axis, in fixed point; the result has 15 fractional bits.

    Inputs x, exponentials int32 [65536] (entry 65535 - d for a distance d below the largest),
    reciprocals int32 [513] (1 / (1 + f) for f in [0, 1]), interpolated.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, exponentials, reciprocals = arguments(self, inputs, 3)
        require(x.dtype is DType.INT16 and x.rank > 0, f"FixedSoftmax: takes int16, not {x}")
        good = exponentials.size == FIXED_TABLE and reciprocals.size == RECIPROCALS
        require(good, f"FixedSoftmax: the tables are {exponentials} and {reciprocals}")
        return (x,)

    @in_blocks(whole=lambda *_: (-1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, exponentials, reciprocals = arguments(self, inputs, 3)
        largest = _largest(x)

        def terms(codes: np.ndarray) -> np.ndarray:
            return np.asarray(exponentials[65535 - (largest - codes)].astype(np.int64))

        total = _row_sums(x, terms)
        zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
        shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
        place = np.clip(shifted - (1 << 15) - (1 << 16), -32768, 32767)
        index, offset = 256 + (place >> 7), place & 0x7F
        base = reciprocals[index].astype(np.int64)
        inverse = base + (((reciprocals[index + 1] - base) * offset + 64) >> 7)
        right = 31 - zeros

        def finished(codes: np.ndarray) -> np.ndarray:
            y = (terms(codes) * inverse + (np.int64(1) << (right - 1))) >> right
            return np.asarray(np.clip(y, 0, 32767))

        return (by_columns(x, np.int16, finished),)


@attributes
class QuantizedL2Normalization(Op):
    """x / sqrt(sum of squares) along the last axis in integers; the result has 7 fractional bits.

    x less ``zero`` times the integer inverse root of the sum. int8 shifts within the multiplier,
    uint8 before it and around 128 (TensorFlow Lite's two kernels).
    """

    zero: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        good = x.dtype in _NARROW and x.rank > 0
        require(good, f"QuantizedL2Normalization: takes rows of 8 bits, not {x}")
        return (x,)

    @in_blocks(whole=lambda *_: (-1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)

        def codes(part: np.ndarray) -> np.ndarray:
            return np.asarray(part.astype(np.int64) - self.zero)

        root, shift = fp.inverse_root(_row_sums(x, lambda part: np.square(codes(part))))

        def finished(part: np.ndarray) -> np.ndarray:
            if x.dtype == np.uint8:
                return fp.saturated(fp.multiply(128 * codes(part), root, shift) + 128, x.dtype)
            return fp.saturated(fp.multiply(codes(part), root, shift + 7), x.dtype)

        return (by_columns(x, x.dtype, finished),)


@attributes
class QuantizedReduceProd(Op):
    """Product of each row, along the last axis, rescaled by (q, shift) at every step.

    The first element less ``zero_in``, then for each other (product * (x - zero_in)) (q, shift),
    and once more after the last; plus ``zero_out``, clipped to the dtype. Steps take 48 bits and
    a multiplier of 16 (``fixed_point.multiply_wide``).
    """

    q: int
    shift: int
    zero_in: int = 0
    zero_out: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        good = x.dtype in (*_NARROW, DType.INT16) and x.rank > 0 and x.shape[-1] != 0
        require(good, f"QuantizedReduceProd: takes rows of integers, not {x}")
        return (x.with_shape(x.shape[:-1]),)

    @in_blocks(whole=lambda *_: (-1,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        product = x[..., 0].astype(np.int64) - self.zero_in
        for column in range(1, x.shape[-1]):
            run_limits.check()
            codes = x[..., column].astype(np.int64) - self.zero_in
            product = fp.multiply_wide(product * codes, self.q, self.shift)
        y = fp.wrapped(fp.multiply_wide(product, self.q, self.shift) + self.zero_out)
        return (fp.saturated(y, x.dtype),)


@attributes
class QuantizedLayerNormalization(Op):
    """Layer normalization of rows of int16, computed in float32.

    Inputs x, weight (int16 [n]), bias (int32 [n]); the result is int16 with 12 fractional bits:
    round(((x - mean) / deviation * weight * scale + bias * scale / 1024) * 4096), halves away from
    zero. Sums are added up in order. A variance of 0 counts as 1e-8; the result is -32768 for a
    variance that rounding makes negative and for values beyond int32. Formula: TensorFlow Lite's
    PortableApplyLayerNormFloat.
    """

    scale: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, weight, bias = arguments(self, inputs, 3)
        name = self.type_name
        require(x.dtype is DType.INT16 and x.rank > 0, f"{name}: takes rows of int16, not {x}")
        for vector, dtype in ((weight, DType.INT16), (bias, DType.INT32)):
            good = vector.shape == x.shape[-1:] and vector.dtype is dtype
            require(good, f"{name}: {vector} is not {dtype.value} of {x.shape[-1]} numbers")
        return (x,)

    @in_blocks(whole=lambda *_: (-1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, weight, bias = arguments(self, inputs, 3)
        f32 = np.float32
        values, count = x.astype(f32), f32(x.shape[-1])
        squares = values * values
        with np.errstate(all="ignore"):
            mean = np.cumsum(values, axis=-1, dtype=f32)[..., -1:] / count
            variance = np.cumsum(squares, axis=-1, dtype=f32)[..., -1:] / count - mean * mean
            root = f32(1) / np.sqrt(np.where(variance == 0, f32(1e-8), variance))
            y = (values - mean) * root * weight.astype(f32) * f32(self.scale)
            y = (y + bias.astype(f32) * (f32(2**-10) * f32(self.scale))) * f32(4096)
            whole = fp.round_half_away(y.astype(np.float64))
        held = np.isfinite(whole) & (np.abs(whole) < 1 << 31)
        return (fp.saturated(np.where(held, whole, -32768), np.dtype(np.int16)),)
