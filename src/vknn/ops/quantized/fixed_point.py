"""Fixed-point arithmetic on integers, bit-exact with TensorFlow Lite's reference kernels.

A real multiplier m > 0 is a pair (q, shift): m = q * 2 ** (shift - 31) with q in [2^30, 2^31).
Formulas: gemmlowp's fixedpoint.h and TensorFlow Lite's quantization_util with double rounding, as
released builds have it.
"""

from __future__ import annotations

import numpy as np

Ints = np.ndarray | np.integer | int

#: Bound of what multiply_float gives, beyond every quantized number.
FAR = 1 << 30
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def quantize_multiplier(real: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Fixed-point multipliers (q, shift), int32, of the shape of ``real`` (float64, >= 0)."""
    real = np.asarray(real, np.float64)
    mantissa, exponent = np.frexp(real)
    q = np.floor(mantissa * (1 << 31) + 0.5).astype(np.int64)
    full = q == 1 << 31
    q, exponent = np.where(full, q >> 1, q), exponent + full
    lost = (exponent < -31) | (real == 0)
    # Exponents beyond 30 cannot be shifted by; the largest multiplier stands for all of them.
    q = np.where(exponent > 30, INT32_MAX, q)
    exponent = np.minimum(exponent, 30)
    return np.where(lost, 0, q).astype(np.int32), np.where(lost, 0, exponent).astype(np.int32)


def wrapped(x: Ints) -> np.ndarray:
    """Values modulo 2^32 in the range of int32, as int64."""
    return np.asarray(x).astype(np.int64).astype(np.int32).astype(np.int64)


def rounding_divide_by_pot(x: Ints, exponent: np.ndarray | int) -> np.ndarray:
    """Quotient x / 2^exponent, halves away from zero; int64 in and out."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


def doubling_high_multiply(a: Ints, b: Ints, bits: int = 32) -> np.ndarray:
    """The high half of 2 * a * b, rounded, saturated; for integers of ``bits`` bits, as int64."""
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    product = a * b
    half = np.int64(1) << (bits - 2)
    product += np.where(product >= 0, half, 1 - half)
    # The division truncates: shift the magnitude.
    high = np.sign(product)
    high *= np.abs(product) >> (bits - 1)
    return np.where((a == least) & (b == least), most, high)


def multiply(x: Ints, q: Ints, shift: Ints) -> np.ndarray:
    """Product x * (q, shift) of int32 x: a left shift, then two roundings; int64 in and out."""
    shift = np.asarray(shift, np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    shifted = wrapped(np.asarray(x, np.int64) << left)
    return rounding_divide_by_pot(doubling_high_multiply(shifted, q), right)


def multiply_once(x: Ints, q: Ints, shift: Ints) -> np.ndarray:
    """Product x * (q, shift) of int32 x: all 64 bits of it, rounded once, halves up, modulo 2^32.

    Shifts beyond 30 count as 30.
    """
    product = np.asarray(x, np.int64) * np.asarray(q, np.int64)
    return _rounded_once(product, 31 - np.asarray(shift, np.int64))


def multiply_wide(x: Ints, q: Ints, shift: Ints) -> np.ndarray:
    """Product x * (q, shift) of x of up to 48 bits: q cut to 16 bits, one rounding, modulo 2^32.

    Shifts beyond 14 count as 14.
    """
    q, shift = np.asarray(q, np.int64), np.asarray(shift, np.int64)
    reduced = np.where(q < 0x7FFF0000, (q + (1 << 15)) >> 16, 0x7FFF)
    return _rounded_once(np.asarray(x, np.int64) * reduced, 15 - shift)


def multiply_long(x: Ints, q: Ints, shift: Ints) -> np.ndarray:
    """Product x * (q, shift) of int64 x: all 95 bits of it, rounded once, halves up, modulo 2^32.

    Shifts beyond 30 count as 30.
    """
    x, q = np.asarray(x, np.int64), np.asarray(q, np.int64)
    right = np.maximum(31 - np.asarray(shift, np.int64), 1)
    low, high = (x & 0xFFFFFFFF).astype(np.uint64) * q.astype(np.uint64), (x >> 32) * q
    half = np.uint64(1) << (np.minimum(right, 32) - 1).astype(np.uint64)
    near = (low + half) >> np.minimum(right, 32).astype(np.uint64)
    near = near.view(np.int64) + (high << np.maximum(32 - right, 0))
    far = _rounded_once(high + (low >> np.uint64(32)).view(np.int64), right - 32)
    return np.where(right > 32, far, wrapped(near))


def multiply_float(x: Ints, q: Ints, shift: Ints) -> np.ndarray:
    """x * m + c in float32, halves to even; q and shift are the bits of the float32 m and c.

    Product and sum are rounded one by one; what is beyond 2^30 counts as that. onnxruntime's
    integer kernels requantize so, with c = 0.
    """
    factor, offset = (np.asarray(v, np.int32).copy().view(np.float32) for v in (q, shift))
    with np.errstate(all="ignore"):
        real = np.rint(np.asarray(x, np.int64).astype(np.float32) * factor + offset)
    return np.clip(np.nan_to_num(real), -FAR, FAR).astype(np.int64)


def float_bits(real: np.ndarray) -> np.ndarray:
    """The bits of float32 numbers as int32, for :func:`multiply_float`."""
    return np.ascontiguousarray(real, np.float32).view(np.int32)


def _rounded_once(product: np.ndarray, right: np.ndarray) -> np.ndarray:
    """product / 2^right, halves up, modulo 2^32; there is no rounding by fewer than one bit."""
    right = np.maximum(right, 1)
    return wrapped((product + (np.int64(1) << (right - 1))) >> right)


def round_half_away(x: np.ndarray | np.floating) -> np.ndarray:
    """The nearest integer, halves away from zero; float in and out."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Integers (or floats that are integers) clipped to the range of ``dtype``."""
    info = np.iinfo(dtype)
    return np.clip(x, info.min, info.max).astype(dtype)


def inverse_root(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse square root of positive int32 x as a fixed-point multiplier (q, shift).

    TensorFlow Lite's GetInvSqrtQuantizedMultiplierExp with reverse shift -1.
    """
    unit = x <= 1
    scaled, right = _scaled_by_fours(np.maximum(x, 2))
    root_half = 1518500250  # sqrt(1/2) with 31 fractional bits
    raw = doubling_high_multiply(_newton_inverse_root(scaled), root_half)
    raw = np.where(right < 0, raw << np.maximum(-right, 0), raw)
    right = np.maximum(right, 0)
    return np.where(unit, INT32_MAX, raw), np.where(unit, 0, -right)


def _scaled_by_fours(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x * 4^k in [2^27, 2^29), and 11 - k, the right shift of its inverse root."""
    right = np.full(x.shape, 11, np.int64)
    while (big := x >= 1 << 29).any():
        x = np.where(big, x >> 2, x)
        right = right + big
    spare = 31 - np.frexp(x.astype(np.float64))[1].astype(np.int64)  # at least 2
    pairs = spare // 2 - 1
    return x << 2 * pairs, right - pairs


def _newton_inverse_root(x: np.ndarray) -> np.ndarray:
    """Five Newton steps in fixed point with 3 integer bits and 28 fractional ones."""
    half = rounding_divide_by_pot(x >> 1, 1)
    three_halves = np.int64((1 << 28) + (1 << 27))
    y = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = _narrow(doubling_high_multiply(doubling_high_multiply(y, y), y), 6)
        first = _narrow(doubling_high_multiply(three_halves, y), 3)
        second = _narrow(doubling_high_multiply(half, cube), 3)
        y = wrapped(first - second)
    return y


def _narrow(x: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(x << bits, INT32_MIN, INT32_MAX)
