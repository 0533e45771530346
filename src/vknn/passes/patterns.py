"""Questions that several passes ask about constants and shapes."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, TensorType, Value


def scalar_constant(value: Value | None) -> float | None:
    """The number, where a value is a constant of one element."""
    if value is None or value.constant is None or value.constant.size != 1:
        return None
    return float(value.constant.reshape(-1)[0])


def float_constant(value: Value | None) -> np.ndarray | None:
    """The array of a float32 constant."""
    if value is None or value.constant is None or value.type.dtype is not DType.FLOAT32:
        return None
    return value.constant


def varying_axes(type_: TensorType, rank: int) -> tuple[int, ...]:
    """Axes of a tensor of ``rank`` along which a tensor of this type, broadcast to it, varies."""
    offset = rank - type_.rank
    return tuple(offset + axis for axis, size in enumerate(type_.dims) if size != 1)
