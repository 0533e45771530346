"""Comparison of a result with the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.crosscheck.deviations import absolute_errors, multiples
from vknn.crosscheck.metrics import ArrayMetrics
from vknn.crosscheck.tolerance import Allowance


@dataclass(frozen=True)
class ArrayComparison:
    """Comparison of an array with the reference's.

    Attributes:
        ok: Whether every element is within what is allowed.
        max_abs: The largest absolute error.
        max_rel: The largest error relative to the magnitude that the operator accumulated.
        excess: The largest error as a multiple of what is allowed; at most 1 where ``ok``.
        worst: Index of the element with that excess; None where there is none.
        expected: The reference's number there.
        actual: The device's number there.
        problem: Why there is nothing to compare (another shape or dtype); else None.
        metrics: Where they are asked for.
    """

    ok: bool
    max_abs: float = 0.0
    max_rel: float = 0.0
    excess: float = 0.0
    worst: tuple[int, ...] | None = None
    expected: float | None = None
    actual: float | None = None
    problem: str | None = None
    metrics: ArrayMetrics | None = None


def compare(actual: np.ndarray, expected: np.ndarray, allowance: Allowance) -> ArrayComparison:
    """The comparison of two arrays; NaN and infinities must stand at the same places in both."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return _unlike(actual, expected)
    if expected.size == 0:
        return ArrayComparison(True)
    if expected.dtype.kind not in "fiub":
        same = bool(np.array_equal(actual, expected))
        return ArrayComparison(same, problem=None if same else "the arrays differ")
    error = absolute_errors(actual, expected)
    with np.errstate(all="ignore"):
        excess = multiples(error, allowance.allowed)
        relative = multiples(error, allowance.magnitude)
    flat = int(np.argmax(np.where(np.isinf(excess), np.minimum(error, 1e300) + 1e300, excess)))
    worst = tuple(int(i) for i in np.unravel_index(flat, expected.shape))
    return ArrayComparison(
        ok=bool(excess.flat[flat] <= 1.0),
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        excess=float(excess.flat[flat]),
        worst=worst,
        expected=float(expected[worst]),
        actual=float(actual[worst]),
    )


def _unlike(actual: np.ndarray, expected: np.ndarray) -> ArrayComparison:
    problem = (
        f"came out as {actual.dtype}{list(actual.shape)}, "
        f"not {expected.dtype}{list(expected.shape)}"
    )
    return ArrayComparison(False, math.inf, math.inf, math.inf, problem=problem)
