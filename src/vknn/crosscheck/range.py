"""Range of numbers that the cross-check makes claims about: neither near overflow nor subnormal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.errors import VknnError
from vknn.graph import Op, Value

#: Magnitudes beyond which sums, squares and what is stored may have no number, by precision and
#: arithmetic.
LIMITS = {
    ("fp32", "fp32"): 1e18,
    ("bf16", "fp32"): 1e18,
    ("fp16", "fp32"): 3e4,
    ("fp16", "fp16"): 1e3,
}
#: Vulkan lets devices take numbers below it as zeros.
TINIEST = float(np.finfo(np.float32).tiny)
#: Numbers below it are next to subnormal ones.
LEAST = 16 * TINIEST
#: Results of arrays whose largest number is below it may be subnormal.
FAINTEST = 1e-30


class OutOfRangeError(VknnError):
    """The reference has numbers that are near to overflow, or none."""

    def __init__(self) -> None:
        super().__init__("the reference leaves the range of numbers that is compared")


@dataclass(eq=False)
class RangeLimit:
    """Limit of magnitudes beyond which nothing is claimed.

    Attributes:
        largest: The limit.
        learning: True where values beyond it are the model's own, such as masks of minus infinity:
            they then may be so later, too.
        beyond: Names of these values.
    """

    largest: float
    learning: bool = True
    beyond: set[str] = field(default_factory=set)

    def check(self, known: Mapping[Value, np.ndarray]) -> None:
        """Check of a graph's values by the reference. Raises OutOfRangeError."""
        found = {v.name for v, array in known.items() if magnitude(array) > self.largest}
        if self.learning:
            self.beyond |= found
        elif found - self.beyond:
            raise OutOfRangeError


def magnitude(array: np.ndarray) -> float:
    """The largest magnitude of floats; infinite where one is NaN or infinite."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    low, high = float(array.min()), float(array.max())
    return max(-low, high) if np.isfinite([low, high]).all() else np.inf


def any_faint(arrays: Iterable[np.ndarray]) -> bool:
    """Whether one of them has nothing but zeros and numbers that are near to subnormal ones."""
    return any(0.0 < magnitude(array) < FAINTEST for array in arrays)


def flushed(
    op: Op,
    inputs: Sequence[np.ndarray | None],
    index: int,
    found: np.ndarray,
    goal: np.ndarray,
) -> np.ndarray:
    """A result to hold ``found`` against, where a device may take subnormal inputs as zeros.

    Of each element it is the one of the two right results that is nearer.
    """
    zeros = [None if x is None else np.where(_subnormal(x), x.dtype.type(0), x) for x in inputs]
    with np.errstate(all="ignore"):
        other = np.asarray(op.reference(*zeros)[index])
        if not found.shape == goal.shape == other.shape:
            return goal
        nearer = np.abs(found - other) < np.abs(found - goal)
    made = np.where(nearer, other, goal).astype(goal.dtype)
    # A function may end a little above the least normal number.
    tiny = (np.abs(found) < LEAST) & (np.abs(made) < LEAST)
    return np.where(tiny, found, made) if goal.dtype.kind == "f" else made


def _subnormal(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return np.zeros((), bool)
    return np.asarray((array != 0) & (np.abs(array) < TINIEST))
