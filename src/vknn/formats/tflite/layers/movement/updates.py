"""DYNAMIC_UPDATE_SLICE: a block written where data say."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.movement.rearrange import DynamicUpdateSlice, SliceUpdate


@operator("DYNAMIC_UPDATE_SLICE", inputs=3, takes_quantized=True)
def dynamic_update_slice(c: Context) -> Value:
    """The input with a block replaced, moved to where it fits; a whole update replaces all."""
    x, update, starts = c.x, c.value(1), c.value(2)
    same = x.type.dtype is update.type.dtype and x.type.rank == update.type.rank
    fits = same and all(a <= b for a, b in zip(update.type.dims, x.type.dims, strict=True))
    c.require(fits, f"writes {update.type} into {x.type}: the update should have its type and "
              "axes, none of them longer")  # fmt: skip
    known = starts.type.dtype in (DType.INT32, DType.INT64) and starts.type.dims == (x.type.rank,)
    c.require(known, f"begins at {starts.type}; it should be int32 or int64 [{x.type.rank}]")
    if update.type.dims == x.type.dims:
        return update
    if not update.type.size:
        return x
    if starts.constant is not None:
        room = np.subtract(x.type.dims, update.type.dims)
        return c.add(SliceUpdate(tuple(np.clip(starts.constant, 0, room).tolist())), x, update)
    if starts.type.dtype is DType.INT64:
        starts = c.cast(c.add(ew.Clip(0.0, float(max(x.type.dims))), starts), DType.INT32)
    return c.add(DynamicUpdateSlice(), x, update, starts)
