"""Logistic and tanh of 16-bit fixed-point numbers, bit-exact with gemmlowp's fixedpoint.h.

A number with n integer bits is raw / 2 ** (15 - n). Results have no integer bits; 1 is 32767.
"""

from __future__ import annotations

import math

import numpy as np

from vknn.ops.quantized import fixed_point as fp

_LEAST, ONE = -(1 << 15), (1 << 15) - 1
#: Exponents e of the factors exp(-2 ** e).
_POWERS = range(-2, 5)


def logistic(raw: np.ndarray, integer_bits: int = 3) -> np.ndarray:
    """1 / (1 + exp(-x)); int64 in and out."""
    raw = np.asarray(raw, np.int64)
    size = np.where(raw > 0, raw, _wrapped(-raw))
    positive = _one_over_one_plus(_exp_of_negative(_wrapped(-size), integer_bits))
    signed = np.where(raw > 0, positive, ONE - positive)
    return np.where(raw == 0, 1 << 14, signed)


def tanh(raw: np.ndarray, integer_bits: int) -> np.ndarray:
    """tanh(x); int64 in and out."""
    raw = np.asarray(raw, np.int64)
    negative = np.where(raw < 0, raw, _wrapped(-raw))
    # The same raw with one more integer bit is twice the number.
    size = _one_minus_over_one_plus(_exp_of_negative(negative, integer_bits + 1))
    return np.where(raw == 0, 0, np.where(raw < 0, _wrapped(-size), size))


def _wrapped(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).astype(np.int16).astype(np.int64)


def _multiply(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    return fp.doubling_high_multiply(a, b, 16)


def _shifted(x: np.ndarray, bits: int) -> np.ndarray:
    """x * 2 ** bits: saturated, or rounded with halves away from zero."""
    if bits < 0:
        return fp.rounding_divide_by_pot(x, -bits)
    return np.clip(x << bits, _LEAST, ONE)


def _fixed(value: float, integer_bits: int = 0) -> int:
    """A constant as a fixed-point number."""
    raw = math.floor(abs(value) * 2.0 ** (15 - integer_bits) + 0.5)
    return max(_LEAST, min(ONE, int(math.copysign(raw, value))))


def _exp_of_negative(raw: np.ndarray, integer_bits: int) -> np.ndarray:
    """exp(x) for x <= 0: a polynomial for x modulo 1/4, times a power for each bit of the rest."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    within = (raw & (quarter - 1)) - quarter
    y = _exp_within_quarter(_shifted(within, integer_bits))
    rest = _wrapped(within - raw)
    for power in _POWERS:
        if integer_bits > power:
            bit = rest & (1 << (fraction + power))
            y = np.where(bit != 0, _multiply(y, _fixed(math.exp(-(2.0**power)))), y)
    if integer_bits > 5:
        y = np.where(raw < _fixed(-32.0, integer_bits), 0, y)
    return np.where(raw == 0, ONE, y)


def _exp_within_quarter(raw: np.ndarray) -> np.ndarray:
    """exp(x) for x in [-1/4, 0), by Taylor around -1/8."""
    at = _fixed(math.exp(-1 / 8))
    x = _wrapped(raw + (1 << 12))
    x2 = _multiply(x, x)
    x3, x4 = _multiply(x2, x), _multiply(x2, x2)
    higher = _multiply(_wrapped(_shifted(x4, -2) + x3), _fixed(1 / 3))
    series = _wrapped(x + _shifted(_wrapped(higher + x2), -1))
    return np.clip(at + _multiply(at, series), _LEAST, ONE)


def _newton(raw: np.ndarray) -> np.ndarray:
    """2 / (1 + x) for x in [0, 1], with 2 integer bits."""
    total = raw + ONE
    half = (total + 1) // 2
    y = _wrapped(_fixed(48 / 17, 2) + _multiply(half, _fixed(-32 / 17, 2)))
    for _ in range(3):
        rest = _wrapped((1 << 13) - _multiply(half, y))
        y = _wrapped(y + _shifted(_multiply(y, rest), 2))
    return y


def _one_over_one_plus(raw: np.ndarray) -> np.ndarray:
    """1 / (1 + x): half the result of :func:`_newton`, which has 2 integer bits."""
    return _shifted(_newton(raw), 1)


def _one_minus_over_one_plus(raw: np.ndarray) -> np.ndarray:
    """(1 - x) / (1 + x)."""
    return _shifted(_wrapped(_newton(raw) - (1 << 13)), 2)
