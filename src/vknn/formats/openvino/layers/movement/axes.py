"""Squeeze, Unsqueeze and Shape."""

from __future__ import annotations

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value


@layer("Shape", "ShapeOf")
def shape(c: Context) -> Value:
    """The sizes of the input's axes."""
    return c.constant(np.array(c.x.type.dims, np.int32), "shape")


@layer("Squeeze", inputs=(1, 2))
def squeeze(c: Context) -> Value:
    """The input without the axes of size 1 that are named, or without all of them."""
    dims = c.x.type.dims
    if len(c.inputs) == 1:
        return c.reshape(c.x, [d for d in dims if d != 1])
    if c.value(1).constant is None and c.is_as_declared:
        return c.reshape(c.x, c.declared())
    axes = _axes(c, c.rank)
    for axis in axes:
        c.require(dims[axis] == 1, f"removes axis {axis}, which is {dims[axis]} long")
    return c.reshape(c.x, [d for axis, d in enumerate(dims) if axis not in axes])


@layer("Unsqueeze", inputs=2)
def unsqueeze(c: Context) -> Value:
    """The input with axes of size 1 inserted; they count in the output's rank."""
    if c.value(1).constant is None and c.is_as_declared:
        return c.reshape(c.x, c.declared())
    rank = c.rank + c.value(1).type.size
    axes = _axes(c, rank)
    rest = iter(c.x.type.dims)
    return c.reshape(c.x, [1 if axis in axes else next(rest) for axis in range(rank)])


def _axes(c: Context, rank: int) -> list[int]:
    axes = [c.axis(axis, rank) for axis in c.input_ints(1, "the axes")]
    c.require(len(set(axes)) == len(axes), f"names an axis twice: {axes}")
    return axes
