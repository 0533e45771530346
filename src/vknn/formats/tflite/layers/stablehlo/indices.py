"""Indices that are data: vectors of starts, clamped or marked, as int32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.scatter_numbers import vector_axis
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew

_SIGNED = (DType.INT32, DType.INT64)
_WIDE = (*_SIGNED, DType.UINT32, DType.UINT64)


def index_vectors(c: Context, number: int, axis: int, count: int) -> Value:
    """An input of vectors of ``count`` indices along an axis, with that axis last."""
    value = c.value(number)
    batch = vector_axis(axis, value.type.dims, count)
    if axis == value.type.rank:
        return c.reshape(value, (*value.type.dims, 1))
    return c.transpose(value, (*batch, axis))


def bounded(c: Context, places: Value, low: Sequence[int], high: Sequence[int]) -> Value:
    """Integers held within bounds, one for each place along the last axis, as int32.

    A single bound serves a scalar, too.
    """
    dtype = places.type.dtype
    c.require(dtype.is_integer, f"has indices of {places.type}")
    if dtype not in _WIDE:
        places = c.cast(places, DType.INT32)
        dtype = DType.INT32
    least = [max(n, 0) if dtype not in _SIGNED else n for n in low]
    for op, bounds in ((ew.Max(), least), (ew.Min(), high)):
        array = np.array(bounds, dtype.numpy)
        places = c.add(op, places, c.constant(array if places.type.rank else array[0], "bounds"))
    return c.cast(places, DType.INT32)


def grid(c: Context, sizes: Sequence[int]) -> Value:
    """All tuples of indices below ``sizes``: int32 [*sizes, len(sizes)]."""
    count = len(sizes)
    c.makeable(count * int(np.prod([*map(int, sizes)], dtype=object)), DType.INT32)
    found = np.indices(sizes, np.int32)
    return c.constant(np.ascontiguousarray(np.moveaxis(found, 0, -1)), "offsets")
