"""Arithmetic of quantized integers in fixed point (``quantized.fixed_point``)."""

from __future__ import annotations

import dataclasses

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, broadcast, require
from vknn.ops.quantized import fixed_point as fp

_STORED = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
#: Largest float32; bounds on what FloatRescale rounds, beyond every quantized number.
_MOST, _FAR = float(np.finfo(np.float32).max), np.float32(1 << 30)


@attributes
class TableLookup(Op):
    """table[x - first]; x beyond the table takes its nearest end.

    Inputs x (integers of at most 32 bits), table [n]: any function of an 8-bit or 16-bit integer.
    """

    first: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, table = arguments(self, inputs, 2)
        require(x.dtype in _STORED, f"TableLookup: looks up {x}")
        require(table.rank == 1 and table.size > 0, f"TableLookup: the table is {table}")
        return (x.with_dtype(table.dtype),)

    @in_blocks(split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, table = arguments(self, inputs, 2)
        return (table[np.clip(x.astype(np.int64) - self.first, 0, table.size - 1)],)


@attributes
class Rescale(Op):
    """clip(((x - zero_in) << left_shift) * (q, shift) + zero_out, low, high) as ``dtype``.

    (q, shift) is a fixed-point multiplier; the product is rounded twice (``fixed_point.multiply``).
    """

    q: int
    shift: int
    zero_in: int = 0
    left_shift: int = 0
    zero_out: int = 0
    low: int = fp.INT32_MIN
    high: int = fp.INT32_MAX
    dtype: DType = DType.INT32

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype in _STORED, f"Rescale: takes integers of at most 32 bits, not {x}")
        require(self.dtype in _STORED, f"Rescale: gives {self.dtype.value}")
        _check_range(self, self.dtype, self.low, self.high)
        return (x.with_dtype(self.dtype),)

    @in_blocks()
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        moved = fp.wrapped((x.astype(np.int64) - self.zero_in) << self.left_shift)
        y = fp.wrapped(fp.multiply(moved, self.q, self.shift) + self.zero_out)
        return (np.clip(y, self.low, self.high).astype(self.dtype.numpy),)


@attributes
class FloatRescale(Op):
    """clip(round(x * scale + bias) + zero_out, low, high) as ``dtype``, in float32.

    The product and the sum are rounded one by one, the result halves away from zero.
    """

    scale: float
    bias: float
    zero_out: int = 0
    low: int = -128
    high: int = 127
    dtype: DType = DType.INT8

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype in _STORED, f"FloatRescale: takes integers of at most 32 bits, not {x}")
        require(self.dtype in _STORED, f"FloatRescale: gives {self.dtype.value}")
        _check_range(self, self.dtype, self.low, self.high)
        finite = abs(self.scale) <= _MOST and abs(self.bias) <= _MOST
        require(finite, f"FloatRescale: {self.scale} and {self.bias} are no numbers of float32")
        return (x.with_dtype(self.dtype),)

    @in_blocks()
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            scaled = x.astype(np.float32) * np.float32(self.scale) + np.float32(self.bias)
        whole = fp.round_half_away(np.clip(scaled, -_FAR, _FAR)).astype(np.int64) + self.zero_out
        return (np.clip(whole, self.low, self.high).astype(self.dtype.numpy),)


#: Kinds of QuantizedBinary.
KINDS = (
    "add",
    "sub",
    "mul",
    "squared_difference",
    "div",
    "prelu",
    "shifted_add",
    "shifted_sub",
    "doubling_high",
    "float_add",
    "float_sub",
    "float_mul",
)


@attributes
class QuantizedBinary(Op):
    """Arithmetic of two quantized tensors with NumPy's broadcasting, clipped to low..high.

    With a, b the operands less ``zeros`` and M0, M1, M2 the fixed-point numbers of ``multipliers``
    and ``shifts``: "add", "sub": ((a << left_shift) M0 +- (b << left_shift) M1) M2;
    "squared_difference": the square of that difference times M2; "mul": (a b) M2; "div": a / b by
    Newton's reciprocal, times M2; "prelu": a M0 where a >= 0, else (a b) M1; "shifted_add",
    "shifted_sub": each operand shifted right by minus its shift (halves away from zero), then added
    with saturation to 16 bits; "doubling_high": 2 a b / 2^16 of 16-bit integers, rounded.
    ``zero_out`` is added for all kinds but "shifted_add" and "shifted_sub". Formulas: the kernels
    of TensorFlow Lite. "float_add", "float_sub", "float_mul": the sum, difference or product
    of a m0 and b m1, over m2, in float32, whose bits ``multipliers`` has; rounded at each step, at
    last to a whole number, halves to even.
    """

    kind: str
    dtype: DType
    zeros: tuple[int, int] = (0, 0)
    multipliers: tuple[int, int, int] = (0, 0, 0)
    shifts: tuple[int, int, int] = (0, 0, 0)
    left_shift: int = 0
    zero_out: int = 0
    low: int = -128
    high: int = 127

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        require(self.kind in KINDS, f"QuantizedBinary: no kind {self.kind!r}")
        require(a.dtype in _STORED and b.dtype in _STORED, f"QuantizedBinary: takes {a} and {b}")
        require(self.dtype in _STORED, f"QuantizedBinary: gives {self.dtype.value}")
        require(min(self.shifts) >= -31, f"QuantizedBinary: shifts of 32 bits by {self.shifts}")
        _check_range(self, self.dtype, self.low, self.high)
        return (TensorType(broadcast(self, a.shape, b.shape), self.dtype),)

    @in_blocks()
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        a = a.astype(np.int64) - self.zeros[0]
        b = b.astype(np.int64) - self.zeros[1]
        y = self._compute(a, b)
        if not self.kind.startswith("shifted"):
            y = fp.wrapped(y + self.zero_out)
        return (np.clip(y, self.low, self.high).astype(self.dtype.numpy),)

    def swapped(self) -> QuantizedBinary:
        """The op with its operands exchanged; only for the kinds that add."""
        (m, n, last), (s, t, end) = self.multipliers, self.shifts
        first, second = self.zeros
        return dataclasses.replace(
            self, zeros=(second, first), multipliers=(n, m, last), shifts=(t, s, end)
        )

    def _compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self.kind.startswith("float"):
            return self._in_floats(a, b)
        if self.kind == "mul":
            return self._times(2, fp.wrapped(a * b))
        if self.kind == "doubling_high":
            return fp.doubling_high_multiply(a, b, 16)
        if self.kind == "prelu":
            a, b = np.broadcast_arrays(a, b)
            return np.where(a >= 0, self._times(0, a), self._times(1, fp.wrapped(a * b)))
        if self.kind == "div":
            return _quotient(a, b, self.multipliers[2], self.shifts[2])
        if self.kind.startswith("shifted"):
            return self._shifted(a, b)
        x = self._times(0, fp.wrapped(a << self.left_shift))
        y = self._times(1, fp.wrapped(b << self.left_shift))
        total = fp.wrapped(x + y if self.kind == "add" else x - y)
        if self.kind == "squared_difference":
            total = fp.wrapped(total * total)
        return self._times(2, total)

    def _in_floats(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        m0, m1, m2 = np.asarray(self.multipliers, np.int32).view(np.float32)
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float32) * m0, b.astype(np.float32) * m1
            combine = {"float_add": np.add, "float_sub": np.subtract, "float_mul": np.multiply}
            real = combine[self.kind](x, y) / m2
        return np.clip(np.nan_to_num(np.rint(real)), -fp.FAR, fp.FAR).astype(np.int64)

    def _times(self, number: int, x: np.ndarray) -> np.ndarray:
        return fp.multiply(x, self.multipliers[number], self.shifts[number])

    def _shifted(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x = fp.rounding_divide_by_pot(a, -self.shifts[0])
        y = fp.rounding_divide_by_pot(b, -self.shifts[1])
        return fp.saturated(x + y if self.kind == "shifted_add" else x - y, np.dtype(np.int16))


def _quotient(a: np.ndarray, b: np.ndarray, q: int, shift: int) -> np.ndarray:
    """a / b * (q, shift); b is not zero."""
    a, b = np.where(b < 0, -a, a), np.where(b < 0, -b, b)
    inverse, over_unit = _reciprocal(np.maximum(b, 1))
    headroom = _leading_sign_bits(a)
    unscaled = fp.doubling_high_multiply(fp.wrapped(a << headroom), inverse)
    right = -(shift - over_unit - headroom)
    scaled = fp.doubling_high_multiply(unscaled, q)
    # Where the shift is out of range, TensorFlow Lite's division takes the low bits of it, as the
    # shift instructions of processors do.
    astray = (right & 63) >= 32
    kept = fp.rounding_divide_by_pot(scaled, np.where(astray, 0, right & 31))
    return np.where(astray, (scaled >> (right & 31)) + (scaled >= 0), kept)


def _leading_sign_bits(x: np.ndarray) -> np.ndarray:
    """Largest left shift of an int32 that keeps its sign."""
    magnitude = np.where(x >= 0, x, ~x)
    return 31 - np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)


def _reciprocal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(raw, bits): 1 / x = raw / 2^31 / 2^bits for positive x of 31 bits; raw is in [2^30, 2^31).

    Three Newton steps on 1 / (1 + f), f in [0, 1), from 48/17 - 32/17 d (gemmlowp fixedpoint.h).
    """
    zeros = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    fraction = (x << zeros) - (1 << 31)
    half = _half_sum(fraction)
    y = fp.wrapped(1515870810 + fp.doubling_high_multiply(half, -1010580540))
    for _ in range(3):
        rest = fp.wrapped((1 << 29) - fp.doubling_high_multiply(half, y))
        step = fp.doubling_high_multiply(y, rest)
        y = fp.wrapped(y + np.clip(step << 2, fp.INT32_MIN, fp.INT32_MAX))
    return np.clip(y << 1, fp.INT32_MIN, fp.INT32_MAX), 31 - zeros


def _half_sum(x: np.ndarray) -> np.ndarray:
    """(x + (2^31 - 1)) / 2, rounded away from zero."""
    total = x + fp.INT32_MAX
    nudged = total + np.where(total >= 0, 1, -1)
    return np.sign(nudged) * (np.abs(nudged) >> 1)


def _check_range(op: Op, dtype: DType, low: int, high: int) -> None:
    info = np.iinfo(dtype.numpy)
    require(info.min <= low <= high <= info.max, f"{op.type_name}: {low}..{high} in {dtype.value}")
