"""Weights as kernels want them, packed once for all plans of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vknn.lowering.kit.layouts import narrowed

#: dtypes of packed floats of 16 bits: float16, and the bits of bfloat16.
_HALVES = (np.float16, np.uint16)


@dataclass(eq=False)
class WeightCache:
    """Packed weights by their key and source arrays; shared by the plans of a program.

    Keeps a reference to each source array, so that an id is never reused while it is a key.
    """

    _entries: dict[tuple[object, ...], tuple[np.ndarray, tuple[np.ndarray, ...]]] = field(
        default_factory=dict
    )

    def get(
        self,
        key: str,
        sources: tuple[np.ndarray, ...],
        make: Callable[[], np.ndarray],
        precision: str = "fp32",
    ) -> np.ndarray:
        """Array that ``make`` packs of the sources, of 32 bits; floats in this precision."""
        full_key = (key, precision, *(id(s) for s in sources))
        if full_key not in self._entries:
            with np.errstate(all="ignore"):  # weights may be NaN, infinite or too large for sums
                packed = make() if precision == "fp32" else narrowed(make(), precision)
            packed = np.ascontiguousarray(packed)
            if packed.dtype.itemsize != 4 and packed.dtype not in _HALVES:
                raise ValueError(f"packed weight {key!r} has dtype {packed.dtype}, not 32 bits")
            self._entries[full_key] = (packed, sources)
        return self._entries[full_key][0]


def holds_floats(packed: np.ndarray) -> bool:
    """True where packed bytes are floats: of integers none has 16 bits, so that bfloat16 has."""
    return packed.dtype.kind == "f" or packed.dtype == np.uint16
