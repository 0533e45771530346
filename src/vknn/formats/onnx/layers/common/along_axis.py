"""Indices along one axis as indices into the whole of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.graph import DType, Value
from vknn.ops.elementwise import Add, Mul


def flat_places(c: Context, dims: Sequence[int], places: Value, axis: int) -> Value:
    """int32 indices (from 0 on) along ``axis`` as row-major indices into a tensor of ``dims``.

    The other axes of ``places`` count those of the tensor, from their beginnings.
    """
    steps = [math.prod(dims[a + 1 :]) for a in range(len(dims))]
    base = np.zeros((1,) * len(dims), np.int32)
    for a, length in enumerate(places.type.dims):
        if a != axis:
            shape = [1] * len(dims)
            shape[a] = length
            base = base + (np.arange(length, dtype=np.int32) * np.int32(steps[a])).reshape(shape)
    moved = c.add(Mul(), places, c.scalar(steps[axis], DType.INT32))
    return c.add(Add(), moved, c.constant(base.astype(np.int32), "rows"))
