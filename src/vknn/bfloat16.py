"""bfloat16: the upper half of a float32, which NumPy has no dtype for, as uint16."""

from __future__ import annotations

import numpy as np


def bits_of(array: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 of each float as uint16; halves to even, a NaN stays one."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    kept = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))
    # A NaN must not be carried over into an infinity.
    kept = np.where(bits & np.uint32(0x7FFFFFFF) > 0x7F800000, bits | np.uint32(0x400000), kept)
    return (kept >> np.uint32(16)).astype(np.uint16).reshape(array.shape)


def floats_of(bits: np.ndarray) -> np.ndarray:
    """The float32 of each bfloat16, exactly."""
    return np.asarray(bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(array: np.ndarray) -> np.ndarray:
    """Floats to the nearest bfloat16, in the array's own dtype."""
    with np.errstate(all="ignore"):  # of float64
        return floats_of(bits_of(array)).astype(array.dtype)
