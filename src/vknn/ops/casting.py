"""Casts that NumPy lacks: element types of less than a byte, of 8 and 16 bits, text; bits as is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require

_NAN_E8M0 = 255
#: Floats of less than a byte, which hold neither infinity nor NaN, and their bits.
_FEW_BITS = {DType.FLOAT4E2M1: 4, DType.FLOAT6E2M3: 6, DType.FLOAT6E3M2: 6}
_ROUNDINGS = ("up", "down", "nearest")


@attributes
class LowPrecisionCast(Op):
    """x as, or from, an element type that NumPy lacks.

    To floats: rounded to nearest, halves to even. ``saturate``: what is too large for an 8-bit type
    becomes its largest number, else infinity or, where it has none, NaN. ``rounding``: of
    float8_e8m0fnu, which holds powers of two: "up", "down" or "nearest". To integers of 4 and 2
    bits: without fraction, of which the lowest bits are kept.
    """

    to: DType = DType.FLOAT32
    saturate: bool = True
    rounding: str = "up"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        known = self.rounding in _ROUNDINGS
        require(known, f"LowPrecisionCast: no rounding {self.rounding!r}")
        texts = DType.STRING in (x.dtype, self.to)
        require(not texts, f"LowPrecisionCast: {x} cannot become {self.to.value}")
        return (x.with_dtype(self.to),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        source = DType.of(x)
        if source.is_small_float or source.is_small_integer:
            x = x.astype(np.float32)
        wanted = self.to.numpy
        with np.errstate(all="ignore"):
            if self.to.is_small_integer:
                return (_low_bits(x, self.to).astype(wanted),)
            if self.to is DType.FLOAT8E8M0:
                return (_power_of_two(x.astype(np.float32), self.rounding).view(wanted),)
            if self.to.is_small_float and self.to is not DType.BFLOAT16:
                return (self._rounded(x.astype(np.float32)),)
            return (x.astype(wanted),)

    def _rounded(self, x: np.ndarray) -> np.ndarray:
        import ml_dtypes

        most = float(ml_dtypes.finfo(self.to.numpy).max)
        if self.saturate or self.to in _FEW_BITS:
            x = np.where(np.isnan(x), x, np.clip(x, -most, most))
        elif self.to is DType.FLOAT8E5M2:
            # As in onnxruntime: what rounds up to the first power of two beyond is no infinity.
            size = np.abs(x)
            x = np.where((size >= 61440.0) & (size < 65536.0), np.nan, x)
        return np.asarray(x.astype(self.to.numpy))


def _low_bits(x: np.ndarray, to: DType) -> np.ndarray:
    """Whole numbers that an integer type of a few bits holds."""
    bits = int(to.value[-1])
    whole = x if x.dtype.kind in "iub" else np.nan_to_num(np.trunc(x.astype(np.float64)))
    low = whole.astype(np.int64) & ((1 << bits) - 1)
    if to.value.startswith("u"):
        return low.astype(np.int8)
    return np.where(low >> (bits - 1), low - (1 << bits), low).astype(np.int8)


def _power_of_two(x: np.ndarray, rounding: str) -> np.ndarray:
    """Exponents, from 0 for 2^-127, of powers of two near ``x``; 255 for NaN."""
    bits = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    exponent, rest = (bits >> 23) & 255, bits & 0x7FFFFF
    more = {
        "up": rest > 0,
        "down": np.zeros(rest.shape, np.bool_),
        "nearest": (rest > 0x400000) | ((rest == 0x400000) & (exponent > 0)),
    }[rounding]
    made = np.minimum(exponent + more, 254)
    return np.where(np.isnan(x), _NAN_E8M0, made).astype(np.uint8)


@attributes
class StringToNumber(Op):
    """The numbers that strings say, as ``to``: decimal, with exponents, inf, nan."""

    to: DType = DType.FLOAT32

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype is DType.STRING, f"StringToNumber reads strings, not {x}")
        return (x.with_dtype(self.to),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        read: Callable[[bytes], float | int] = int if self.to.is_integer else float
        made = np.zeros(x.shape, self.to.numpy)
        for place, text in np.ndenumerate(x):
            run_limits.check()
            try:
                made[place] = read(bytes(text))
            except (ValueError, OverflowError):
                raise ShapeError(f"{text!r} is no {self.to.value}") from None
        return (made,)


@attributes
class AsString(Op):
    """Numbers as strings: floats of 8 digits at most, no ".0"; INF, NaN; bool as 0, 1."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x.with_dtype(DType.STRING),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        made = np.empty(x.shape, object)
        for place, number in np.ndenumerate(x):
            run_limits.check()
            made[place] = _text(number).encode()
        return (made,)


def _text(number: object) -> str:
    if isinstance(number, np.bool_):
        return str(int(number))
    text = str(number)
    if isinstance(number, np.floating):
        # As onnxruntime writes them, C's "%.8g"; ONNX's tests want the shortest text of a float32.
        text = f"{float(text if isinstance(number, np.float32) else number):.8g}"
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)


@attributes
class BitCast(Op):
    """The bits of x as another element type, the lowest first where widths differ.

    What n narrower elements hold becomes a last axis of size n, or is one: x [..., n] of 8 bits
    gives [...] of 8 n bits and the other way round. Types of less than a byte become one another.
    A bool is true where a bit is set.
    """

    to: DType = DType.FLOAT32

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        texts = DType.STRING in (x.dtype, self.to)
        require(not texts, f"BitCast: {x} and {self.to.value} differ in width")
        own, other = _bits(x.dtype), _bits(self.to)
        if own == other:
            return (x.with_dtype(self.to),)
        whole = own % 8 == other % 8 == 0
        require(whole, f"BitCast: {x} and {self.to.value} differ in width")
        if own > other:
            return (TensorType((*x.shape, own // other), self.to),)
        good = x.rank > 0 and fits(x.shape[-1], other // own)
        require(good, f"BitCast: {x} has no last axis of {other // own} for {self.to.value}")
        return (TensorType(x.shape[:-1], self.to),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        if DType.of(x).is_small_integer or self.to.is_small_integer:
            return (_recoded(x, self.to),)
        (y,) = self.infer(TensorType.of(x))
        whole = np.ascontiguousarray(x).reshape(-1)
        if self.to is DType.BOOL:
            return ((whole.view(np.uint8) != 0).reshape(y.dims),)
        return (whole.view(self.to.numpy).reshape(y.dims),)


def _bits(dtype: DType) -> int:
    """Bits of an element as it is packed."""
    return int(dtype.value[-1]) if dtype.is_small_integer else _packed_bits(dtype)


def _packed_bits(dtype: DType) -> int:
    return _FEW_BITS.get(dtype, 8 * dtype.itemsize)


def _recoded(x: np.ndarray, to: DType) -> np.ndarray:
    """Elements of a few bits, each in a byte, read as another such type."""
    source = DType.of(x)
    codes = x.astype(np.int8) if source.is_small_integer else x.view(np.uint8)
    if to.is_small_integer:
        return _low_bits(codes, to).astype(to.numpy)
    return (codes & ((1 << _bits(source)) - 1)).astype(np.uint8).view(to.numpy)
