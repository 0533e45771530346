"""Agreement of an example's results: the same bits wherever it stands, near to those alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np


def shape_of(feeds: Mapping[str, np.ndarray]) -> Hashable:
    """Shapes and element types of inputs: examples alike in them fit one run."""
    return tuple(sorted((n, np.shape(a), np.asarray(a).dtype.str) for n, a in feeds.items()))


def same_bits(one: Any, other: Any) -> bool:
    """Whether two outputs, or dicts or lists of some, are the same to the bit."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same_bits(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    if isinstance(one, np.ndarray | np.generic) and one.dtype != object:
        a, b = np.asarray(one), np.asarray(other)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(np.all(one == other))


def are_near(one: Any, other: Any, share: float) -> bool:
    """Whether two outputs, or dicts or lists of some, differ by no more than is allowed.

    ``share``: of the range of each array of numbers; integers may be one step apart, for they may
    be codes. Labels are not looked at: scores that are near to each other may change places.
    """
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(are_near(one[k], other[k], share) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            are_near(a, b, share) for a, b in zip(one, other, strict=True)
        )
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if b.dtype.kind == "b":
        return np.array_equal(a, b)
    found, right = a.astype(np.float64), b.astype(np.float64)
    largest = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    allowed = share * largest if b.dtype.kind == "f" else max(1.0, share * largest)
    return np.allclose(found, right, rtol=0.0, atol=allowed, equal_nan=True)
