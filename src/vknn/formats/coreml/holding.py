"""Constants that stay the same objects from graph to graph.

Graphs are built anew for other shapes, and weights decoded anew with them. What is packed for the
device, and uploaded, is known by the array it came of: equal arrays must be one object for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False)
class Held:
    """The latest array of each key."""

    arrays: dict[tuple[object, ...], np.ndarray] = field(default_factory=dict)

    def same(self, key: tuple[object, ...], array: np.ndarray) -> np.ndarray:
        """``array``, or the equal one that was seen under this key before."""
        before = self.arrays.get(key)
        if before is not None and _equal(before, array):
            return before
        self.arrays[key] = array
        return array


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """The same bits, so that NaN equals itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    one, other = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(one, other))
