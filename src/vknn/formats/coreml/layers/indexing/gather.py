"""Gather layers: elements looked up by indices, which are floats; negative ones count from the end.

An index out of range is an error where it is known when the graph is built. At run time the nearest
element is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.movement.slice import from_start
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import And, GreaterOrEqual, Less, Where
from vknn.ops.indexing.gather import Gather, GatherND


def indices(c: Context, place: int, sizes: Sequence[int]) -> Value:
    """An input as int32 indices; ``sizes``: of the indexed axes, along the last axis or all."""
    value = c.value(place)
    if value.constant is not None:
        limit = np.asarray(sizes, np.float64)
        outside = ~((value.constant >= -limit) & (value.constant < limit))
        if outside.any():
            found = value.constant[outside].flat[0]
            c.fail(f"the index {found:g} is out of range for sizes {list(sizes)}")
    return c.cast(value, DType.INT32)


@layer("gather", inputs=2)
def gather(c: Context) -> Value:
    """Elements along an axis, which the axes of the indices replace."""
    axis = c.axis(c.params.axis, c.x.type.rank)
    return c.add(Gather(axis), c.x, indices(c, 1, [c.x.type.dims[axis]]))


@layer("gatherND", inputs=2)
def gather_nd(c: Context) -> Value:
    """Elements at the index tuples along the last axis of the second input."""
    return c.add(GatherND(), c.x, indices(c, 1, indexed_sizes(c)))


def indexed_sizes(c: Context) -> tuple[int, ...]:
    """Sizes of the axes of x that the tuples of the second input index: the first ones."""
    count = c.value(1).type.dims[-1]
    good = 1 <= count <= c.x.type.rank
    c.require(good, f"tuples of {count} indices do not suit {c.x.type}")
    return c.x.type.dims[:count]


@layer("gatherAlongAxis", inputs=2)
def gather_along_axis(c: Context) -> Value:
    """y[.., i, ..] = x[.., indices[.., i, ..], ..] along one axis."""
    axis = along_axis(c)
    size = c.x.type.dims[axis]
    places = from_start(c, indices(c, 1, [size]), size)
    last = c.scalar(max(size - 1, 0), DType.INT32)
    places = c.add(ew.Min(), c.add(ew.Max(), places, c.scalar(0, DType.INT32)), last)
    flat = c.reshape(c.x, (c.x.type.size,))
    return c.add(Gather(0, from_end=False), flat, flat_indices(c, places, axis))


def along_axis(c: Context) -> int:
    """The axis along which the second input's shape may differ from that of x. Raises Malformed."""
    dims, other = c.x.type.dims, c.value(1).type.dims
    axis = c.axis(c.params.axis, len(dims))
    same = len(other) == len(dims)
    same = same and (*dims[:axis], *dims[axis + 1 :]) == (*other[:axis], *other[axis + 1 :])
    c.require(same, f"indices {list(other)} do not suit {c.x.type} along axis {axis}")
    return axis


def flat_indices(c: Context, places: Value, axis: int) -> Value:
    """int32 indices along ``axis`` as row-major indices into the whole of x."""
    dims = c.x.type.dims
    steps = [math.prod(dims[a + 1 :]) for a in range(len(dims))]
    base = np.zeros((1,) * len(dims), np.int32)
    for a, size in enumerate(dims):
        if a != axis:
            shape = [1] * len(dims)
            shape[a] = size
            base = base + (np.arange(size, dtype=np.int32) * np.int32(steps[a])).reshape(shape)
    moved = c.add(ew.Mul(), places, c.scalar(steps[axis], DType.INT32))
    return c.add(ew.Add(), moved, c.constant(base.astype(np.int32), "rows"))


def drop_out_of_range(c: Context, flat: Value, places: Value, size: int) -> Value:
    """``flat``, but -1 where ``places`` are outside of 0 to size - 1."""
    zero, end = c.scalar(0, DType.INT32), c.scalar(size, DType.INT32)
    inside = c.add(And(), c.add(GreaterOrEqual(), places, zero), c.add(Less(), places, end))
    return c.add(Where(), inside, flat, c.scalar(-1, DType.INT32))
