"""Allowances of results behind other operators: shares of their range, and errors carried on."""

from __future__ import annotations

import numpy as np

from vknn.crosscheck.carried import ROOM
from vknn.crosscheck.storage import BFLOAT_UNIT, HALF_UNIT
from vknn.crosscheck.tolerance import UNIT, Allowance

#: Share of a tensor's own range that errors may add up to over a whole network, by precision
#: and arithmetic. Roundings to bfloat16 are larger than those to float16 by their units.
CUMULATIVE = {
    ("fp32", "fp32"): 1e-4,
    ("fp16", "fp32"): 2e-2,
    ("fp16", "fp16"): 4e-2,
    ("bf16", "fp32"): 2e-2 * BFLOAT_UNIT / HALF_UNIT,
}


def moved(allowance: Allowance, error: float) -> Allowance:
    """An allowance where an error is carried on to a result."""
    return Allowance(allowance.magnitude, np.maximum(allowance.allowed, ROOM * error))


def widened(allowance: Allowance, expected: np.ndarray, share: float) -> Allowance:
    """An allowance for cumulative results: a share of the range, for integers at least 1."""
    if expected.size == 0 or expected.dtype.kind not in "fiu":
        return allowance
    size = np.abs(expected.astype(np.float64))
    largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
    least = share * largest if expected.dtype.kind == "f" else max(1.0, share * largest)
    range_ = np.maximum(largest, np.zeros(1)) if largest else allowance.magnitude
    return Allowance(range_, np.maximum(allowance.allowed, max(least, UNIT * largest)))


def at_least(
    allowance: Allowance, expected: np.ndarray, other: tuple[np.ndarray, Allowance] | None
) -> Allowance:
    """An allowance for an output, at least the other one where that is for the same numbers."""
    if other is None or other[0].size != expected.size or expected.dtype.kind != "f":
        return allowance
    right, row = other
    if not np.array_equal(right.reshape(-1), expected.reshape(-1), equal_nan=True):
        return allowance  # another layout
    allowed = np.broadcast_to(row.allowed, right.shape).reshape(expected.shape)
    return Allowance(allowance.magnitude, np.maximum(allowance.allowed, allowed))
