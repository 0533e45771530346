"""Exponential, reciprocal, logistic and tanh in fixed point, bit by bit gemmlowp's (fixedpoint.h).

Of a word of b bits with n integer bits the number is raw / 2 ** (b - 1 - n). Results have no
integer bits; 1 is the word's greatest number. Functions take and give int64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.ops.quantized import fixed_point as fp

#: Exponents e of the factors exp(-2 ** e).
_POWERS = range(-2, 5)


@dataclass(frozen=True)
class Word:
    """Arithmetic on fixed-point numbers in signed words of ``bits``, 16 or 32."""

    bits: int

    @property
    def one(self) -> int:
        """The greatest number, which stands for 1."""
        return (1 << (self.bits - 1)) - 1

    def exp_of_negative(self, raw: np.ndarray, integer_bits: int) -> np.ndarray:
        """exp(x) for x <= 0: a polynomial for x modulo 1/4, times a power for each bit above."""
        fraction = self.bits - 1 - integer_bits
        quarter = 1 << (fraction - 2)
        within = (raw & (quarter - 1)) - quarter
        y = self._exp_within_quarter(self.shifted(within, integer_bits))
        rest = self.wrapped(within - raw)
        for power in _POWERS:
            if integer_bits > power:
                bit = rest & (1 << (fraction + power))
                factor = self._constant(math.exp(-(2.0**power)))
                y = np.where(bit != 0, self.product(y, factor), y)
        if integer_bits > 5:
            y = np.where(raw < self._constant(-32.0, integer_bits), 0, y)
        return np.where(raw == 0, self.one, y)

    def one_over_one_plus(self, raw: np.ndarray) -> np.ndarray:
        """1 / (1 + x) for x in [0, 1]: half of 2 / (1 + x), which has 2 integer bits."""
        return self.shifted(self.two_over_one_plus(raw), 1)

    def two_over_one_plus(self, raw: np.ndarray) -> np.ndarray:
        """2 / (1 + x) for x in [0, 1], with 2 integer bits, by Newton's method."""
        half = (raw + self.one + 1) // 2
        first = self._constant(48 / 17, 2)
        y = self.wrapped(first + self.product(half, self._constant(-32 / 17, 2)))
        for _ in range(3):
            rest = self.wrapped((1 << (self.bits - 3)) - self.product(half, y))
            y = self.wrapped(y + self.shifted(self.product(y, rest), 2))
        return y

    def product(self, a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
        """Product of numbers without integer bits, rounded."""
        return fp.doubling_high_multiply(a, b, self.bits)

    def shifted(self, x: np.ndarray, places: int) -> np.ndarray:
        """x * 2 ** places: saturated, or rounded with halves away from zero."""
        if places < 0:
            return fp.rounding_divide_by_pot(x, -places)
        return np.clip(x << places, -self.one - 1, self.one)

    def wrapped(self, x: np.ndarray) -> np.ndarray:
        """x modulo 2 ** bits, in the range of the word."""
        return np.asarray(x).astype(f"i{self.bits // 8}").astype(np.int64)

    def _constant(self, value: float, integer_bits: int = 0) -> int:
        raw = math.floor(abs(value) * 2.0 ** (self.bits - 1 - integer_bits) + 0.5)
        return max(-self.one - 1, min(self.one, int(math.copysign(raw, value))))

    def _exp_within_quarter(self, raw: np.ndarray) -> np.ndarray:
        """exp(x) for x in [-1/4, 0), by Taylor around -1/8."""
        at = self._constant(math.exp(-1 / 8))
        x = self.wrapped(raw + (1 << (self.bits - 4)))
        x2 = self.product(x, x)
        x3, x4 = self.product(x2, x), self.product(x2, x2)
        cubic = self.wrapped(self.shifted(x4, -2) + x3)
        higher = self.product(cubic, self._constant(1 / 3))
        series = self.wrapped(x + self.shifted(self.wrapped(higher + x2), -1))
        return np.clip(at + self.product(at, series), -self.one - 1, self.one)


_SHORT = Word(16)
ONE = _SHORT.one


def logistic(raw: np.ndarray, integer_bits: int = 3) -> np.ndarray:
    """1 / (1 + exp(-x)) of 16-bit numbers."""
    raw = np.asarray(raw, np.int64)
    size = np.where(raw > 0, raw, _SHORT.wrapped(-raw))
    power = _SHORT.exp_of_negative(_SHORT.wrapped(-size), integer_bits)
    positive = _SHORT.one_over_one_plus(power)
    signed = np.where(raw > 0, positive, ONE - positive)
    return np.where(raw == 0, 1 << 14, signed)


def tanh(raw: np.ndarray, integer_bits: int) -> np.ndarray:
    """tanh(x) of 16-bit numbers."""
    raw = np.asarray(raw, np.int64)
    negative = np.where(raw < 0, raw, _SHORT.wrapped(-raw))
    # The same raw with one more integer bit is twice the number.
    power = _SHORT.exp_of_negative(negative, integer_bits + 1)
    # (1 - y) / (1 + y) = 2 / (1 + y) - 1
    size = _SHORT.shifted(_SHORT.wrapped(_SHORT.two_over_one_plus(power) - (1 << 13)), 2)
    return np.where(raw == 0, 0, np.where(raw < 0, _SHORT.wrapped(-size), size))
