"""Deviations of a result from the reference, element by element."""

from __future__ import annotations

import numpy as np


def absolute_errors(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Absolute differences in float64; infinite where only one side is NaN or infinite."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def multiples(error: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Errors as multiples of a scale that broadcasts to them; infinite where it is 0."""
    scale = scale.reshape(()) if scale.size == 1 else scale
    return np.where(error == 0.0, 0.0, error / np.broadcast_to(scale, error.shape))
