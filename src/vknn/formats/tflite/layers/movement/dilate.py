"""DILATE: places between elements."""

from __future__ import annotations

from vknn.formats.padding import padded
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value


@operator("DILATE", inputs=3, takes_quantized=True)
def dilate(c: Context) -> Value:
    """The elements along each axis as many places apart as the dilations say, a value between."""
    x, value, rank = c.x, c.value(2), c.x.type.rank
    apart = c.ints(1, "the dilations")
    good = c.value(1).type.dtype is DType.INT32 and len(apart) == rank
    c.require(good, f"has the dilations {c.value(1).type} for {x.type}; they should be int32 "
              f"[{rank}]")  # fmt: skip
    c.require(min(apart, default=1) >= 1, f"has the dilations {apart}; each should be 1 or more")
    single = value.type.size == 1 and value.type.dtype is x.type.dtype
    c.require(single, f"fills with {value.type}, not one {x.type.dtype.value}")
    none = [0] * rank
    return padded(c, x, none, none, [a - 1 for a in apart], c.reshape(value, ()))
