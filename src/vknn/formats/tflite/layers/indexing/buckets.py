"""BUCKETIZE: between which boundaries numbers lie."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.indexing.gather import SearchSorted

_TAKEN = (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64)


@operator("BUCKETIZE")
def bucketize(c: Context) -> Value:
    """Number of boundaries that are at most as large as each number; NaN is above all.

    TensorFlow Lite compares integers as float32, the type of the boundaries.
    """
    dtype = c.x.type.dtype
    c.require(dtype in _TAKEN, f"takes {', '.join(t.value for t in _TAKEN)}, not {dtype.value}")
    boundaries = np.array(c.options["boundaries"], np.float32)
    # Not "any is below the one before it": NaN has no place in any order.
    c.require(not np.isnan(boundaries).any() and bool((boundaries[:-1] <= boundaries[1:]).all()),
              "has boundaries that do not ascend; sort them")  # fmt: skip
    compared = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    keys = c.constant(boundaries.astype(compared.numpy), "boundaries")
    return c.add(SearchSorted(right=True), keys, c.cast(c.x, compared))
