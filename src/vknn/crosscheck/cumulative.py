"""Allowances of results behind other operators: shares of their range, and errors carried on."""

from __future__ import annotations

import numpy as np

from vknn.crosscheck.carried import ROOM
from vknn.crosscheck.tolerance import UNIT, Allowance
from vknn.errors import VknnError

#: Integers that may be codes of real numbers, which are rounded to either side.
_CODES = tuple(map(np.dtype, ("int8", "uint8", "int16", "uint16")))


def near(right: np.ndarray, share: float, given: bool) -> Allowance:
    """The allowance for a recorded array: a share of the right one's range.

    Integers are allowed nothing, as indices and counts, but one step of those that may be codes.
    ``given``: the share is the user's and counts for all integers. Text is allowed nothing.
    """
    if right.dtype.kind not in "fiub":
        return Allowance(np.zeros(1), np.zeros(1))
    exact = Allowance(np.abs(right), np.zeros(1))
    if right.dtype.kind == "f" or (right.dtype in _CODES and not given):
        return widened(exact, right, share)
    if not given or right.size == 0:
        return exact
    largest = float(np.max(np.abs(right.astype(np.float64))))
    return Allowance(exact.magnitude, np.full(1, share * largest))


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


def check_tolerances(**tolerances: float | None) -> None:
    """Check of tolerances by name. Raises VknnError for a negative one, and for NaN."""
    for name, tolerance in tolerances.items():
        if tolerance is not None and not tolerance >= 0:
            raise VknnError(f"{name}={tolerance}: it must be at least 0")
