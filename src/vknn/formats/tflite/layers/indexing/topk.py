"""ARG_MAX, ARG_MIN, TOPK_V2 and ONE_HOT."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.elementwise import Cast
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK


@operator("ARG_MAX", "ARG_MIN", inputs=2, takes_quantized=True)
def arg_extreme(c: Context) -> Value:
    """Index of the first largest (smallest) element along an axis, which is removed.

    TensorFlow Lite differs: among four or more elements with a NaN it may give another index.
    """
    axis = c.number(1, "the axis")
    axis = c.axis(axis, c.x.type.rank)
    op = (ArgMax if c.operator.code == "ARG_MAX" else ArgMin)(axis, keepdims=False, nan_last=True)
    x = c.add(Cast(DType.INT32), c.x) if c.x.type.dtype is DType.BOOL else c.x
    return c.cast(c.add(op, x), c.target().dtype)


@operator("TOPK_V2", inputs=2, outputs=2, takes_quantized=True)
def top_k(c: Context) -> list[Value]:
    """The k largest elements of the last axis in descending order, and their indices."""
    k = c.number(1, "k")
    c.require(c.x.type.rank > 0 and 0 <= k <= c.x.type.dims[-1], f"takes {k} of {c.x.type}")
    values, places = c.add_many(TopK(-1, k), c.x)
    return [values, c.cast(places, c.target(1).dtype)]


@operator("ONE_HOT", inputs=4, takes_quantized=True)
def one_hot(c: Context) -> Value:
    """on_value at the index along a new axis, off_value elsewhere."""
    depth = c.number(1, "the depth")
    rank = c.x.type.rank
    c.require(depth >= 0, f"has a depth of {depth}")
    c.makeable(depth, DType.INT32)
    axis = rank if c.options["axis"] == -1 else c.options["axis"]
    c.require(0 <= axis <= rank, f"has a new axis {axis} in rank {rank}")
    indices = c.cast(c.x, DType.INT32)
    dims = list(indices.type.dims)
    indices = c.reshape(indices, (*dims[:axis], 1, *dims[axis:]))
    places = np.arange(depth, dtype=np.int32).reshape((depth,) + (1,) * (rank - axis))
    hit = c.add(Equal(), indices, c.constant(places, "places"))
    on, off = c.reshape(c.value(2), ()), c.reshape(c.value(3), ())
    return c.add(Where(), hit, on, off)
