"""UNSORTED_SEGMENT_SUM, _PROD, _MAX and _MIN."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Bounded
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.shape import Expand

_LEAST = -(1 << 31)
#: Operator -> how entries are combined.
_REDUCTIONS = {
    "UNSORTED_SEGMENT_SUM": "add",
    "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
}


@operator(*_REDUCTIONS, inputs=3)
def unsorted_segment(c: Context) -> Value:
    """Entries of the same segment combined; those of segments below 0 are left out.

    A segment without entries holds 0, 1, the lowest or the highest number of the type. The numbers
    of segments have the leading axes of the data; maxima and minima leave NaN out.
    """
    data, numbers = c.x, c.value(1)
    count = c.number(2, "the number of segments")
    c.require(count >= 0, f"has {count} segments; the number must not be below 0")
    lead, reduction = numbers.type.rank, _REDUCTIONS[c.operator.code]
    fits = numbers.type.dtype is DType.INT32 and numbers.type.dims == data.type.dims[:lead]
    c.require(fits, f"has the segments {numbers.type} for {data.type}: they should be int32, of "
              "its leading axes")  # fmt: skip
    first = _first(reduction, data.type.dtype)
    start = c.constant(np.asarray(first, data.type.dtype.numpy), "first")
    made = c.add(Expand((count, *data.type.dims[lead:])), start)
    if not data.type.size:
        return made
    found = c.add(Bounded(_LEAST, count - 1, "segment number"), numbers)
    if data.type.dtype.is_float and reduction in ("max", "min"):
        choose: Op = ew.Larger() if reduction == "max" else ew.Smaller()
        data = c.add(choose, data, start)
    places = c.reshape(found, (*numbers.type.dims, 1))
    return c.add(ScatterND(reduction, from_end=False), made, places, data)


def _first(reduction: str, dtype: DType) -> float:
    """Content of a segment without entries."""
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    info = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return info.min if reduction == "max" else info.max
