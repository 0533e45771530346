"""STABLEHLO_SORT by a comparison of the elements of one operand."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.elementwise import total_order
from vknn.formats.tflite.regions import order_of
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.topk import TopK


@operator("STABLEHLO_SORT", inputs=(1, None), outputs=(1, None), takes_quantized=True)
def sort(c: Context) -> list[Value]:
    """The operands in the order that the comparator says of one of them; equal ones stay in order.

    Comparators that are more than one comparison are called at run time (``region_runs``).
    """
    values = [c.value(i) for i in range(len(c.inputs))]
    dims, order = c.x.type.dims, order_of(c.region)
    assert order is not None, "others are interpreted"
    good = all(v.type.dims == dims for v in values) and len(values) == len(c.operator.outputs)
    kinds = ", ".join(str(v.type) for v in values)
    c.require(good, f"sorts {kinds} into {len(c.operator.outputs)} outputs")
    axis = c.axis(c.options["dimension"], len(dims))
    if dims[axis] < 2 or 0 in dims:
        return values
    key = values[order.operand]
    key = total_order(c, key) if order.total else key
    key = c.cast(key, DType.INT32) if key.type.dtype is DType.BOOL else key
    best, places = c.add_many(TopK(axis, dims[axis], order.largest), key)
    return [best if v is key else _taken(c, v, axis, places) for v in values]


def _taken(c: Context, x: Value, axis: int, places: Value) -> Value:
    """Elements of ``x`` at places along an axis, a place for each element."""
    last = (*(a for a in range(x.type.rank) if a != axis), axis)
    rows, found = c.transpose(x, last), c.transpose(places, last)
    *outer, size = rows.type.dims
    count = c.makeable(int(np.prod(outer, dtype=object)), DType.INT32)
    begins = c.constant((np.arange(count, dtype=np.int32) * size)[:, None], "rows")
    found = c.add(ew.Add(), c.reshape(found, (count, size)), begins)
    flat = c.add(Gather(0, from_end=False), c.reshape(rows, (count * size,)), found)
    back = [last.index(a) for a in range(x.type.rank)]
    return c.transpose(c.reshape(flat, rows.type.dims), back)
