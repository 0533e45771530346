"""Special functions that NumPy lacks, in float64."""

from __future__ import annotations

import math

import numpy as np

_STEP = 1.0 / 32.0
_LIMIT = 6.0  # 1 - erf(6) is below the spacing of float64 at 1
_DEGREE = 7


def erf(x: np.ndarray) -> np.ndarray:
    """The error function of float64 ``x``, to about 1e-15.

    Taylor expansion about the nearest point of a grid where libm gave the value. The derivatives
    are 2/sqrt(pi) * (-1)^n H_n(t) exp(-t^2) with the (physicists') Hermite polynomials
    H_{n+1} = 2t H_n - 2n H_{n-1}.
    """
    magnitude = np.minimum(np.abs(x), _LIMIT)
    # NaN has no place in the table; any will do, the result is NaN all the same.
    place = np.rint(np.nan_to_num(magnitude) / _STEP).astype(np.intp)
    distance = magnitude - place * _STEP
    result = _TABLE[-1][place]
    for coefficients in _TABLE[-2::-1]:
        result = result * distance + coefficients[place]
    return np.copysign(result, x)


def _taylor_table() -> np.ndarray:
    """Coefficient n of the expansion about grid point k at [n, k]."""
    t = np.arange(round(_LIMIT / _STEP) + 1) * _STEP
    table = np.empty((_DEGREE + 1, t.size))
    table[0] = [math.erf(v) for v in t]
    scale = 2.0 / math.sqrt(math.pi) * np.exp(-t * t)
    before, hermite = np.zeros_like(t), np.ones_like(t)
    for n in range(_DEGREE):
        table[n + 1] = (-1) ** n * scale * hermite / math.factorial(n + 1)
        before, hermite = hermite, 2.0 * t * hermite - 2.0 * n * before
    return table


_TABLE = _taylor_table()
