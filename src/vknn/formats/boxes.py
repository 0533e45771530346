"""Boxes by centre and size as boxes by two corners."""

from __future__ import annotations

from vknn.formats.layer_context import LayerContext
from vknn.graph import Value
from vknn.ops.elementwise.binary import Add, Mul, Sub
from vknn.ops.movement.shape import Concat, Slice


def corners(c: LayerContext, boxes: Value) -> Value:
    """Two corners of boxes [b, n, 4] that are given by centre and size."""
    centres, sizes = (c.add(Slice((i,), (i + 2,), (2,)), boxes) for i in (0, 2))
    reach = c.add(Mul(), sizes, c.scalar(0.5))
    return c.add(Concat(2), c.add(Sub(), centres, reach), c.add(Add(), centres, reach))
