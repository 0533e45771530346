"""Scatter layers: elements replaced by, or combined with, updates at indices (see ``gather``).

Of several replacements of one element the last one counts; combinations all count. Indices out of
range at run time are ignored.
"""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.indexing.gather import (
    along_axis,
    drop_out_of_range,
    flat_indices,
    indexed_sizes,
    indices,
)
from vknn.formats.coreml.layers.movement.slice import from_start
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.scatter import ScatterND

#: ScatterMode -> the reduction of ScatterND, and the op applied to the updates before it.
_MODES: dict[int, tuple[str, Op | None]] = {
    0: ("none", None),
    1: ("add", None),
    2: ("add", ew.Neg()),
    3: ("mul", None),
    4: ("mul", ew.Reciprocal()),
    5: ("max", None),
    6: ("min", None),
}


def _written(c: Context, x: Value, tuples: Value, updates: Value, from_end: bool) -> Value:
    mode = _MODES.get(c.params.mode)
    if mode is None:
        c.fail(f"has no mode {c.params.mode}")
    reduction, change = mode
    if change is not None:
        updates = c.add(change, updates)
    return c.add(ScatterND(reduction, from_end), x, tuples, updates)


@layer("scatter", inputs=3)
def scatter(c: Context) -> Value:
    """Whole slices of an axis; updates have the indices' axes in its place."""
    dims, own, updates = c.x.type.dims, c.value(1).type.dims, c.value(2)
    axis = c.axis(c.params.axis, len(dims))
    wanted = (*dims[:axis], *own, *dims[axis + 1 :])
    suits = updates.type.dims == wanted
    c.require(suits, f"updates {updates.type} should have the shape {list(wanted)}")
    rest = [a for a in range(len(dims)) if a != axis]
    front = [axis, *rest]
    x = c.transpose(c.x, front)
    middle = list(range(axis, axis + len(own)))
    others = [a for a in range(len(wanted)) if a not in middle]
    updates = c.transpose(updates, [*middle, *others])
    tuples = c.reshape(indices(c, 1, [dims[axis]]), (*own, 1))
    y = _written(c, x, tuples, updates, True)
    return c.transpose(y, [front.index(a) for a in range(len(dims))])


@layer("scatterND", inputs=3)
def scatter_nd(c: Context) -> Value:
    """Elements at the index tuples along the last axis of the indices."""
    return _written(c, c.x, indices(c, 1, indexed_sizes(c)), c.value(2), True)


@layer("scatterAlongAxis", inputs=3)
def scatter_along_axis(c: Context) -> Value:
    """x[.., indices[.., i, ..], ..] from updates[.., i, ..] along one axis."""
    axis, updates = along_axis(c), c.value(2)
    same = updates.type.dims == c.value(1).type.dims
    c.require(same, f"updates {updates.type} and indices {c.value(1).type} differ in shape")
    size = c.x.type.dims[axis]
    places = from_start(c, indices(c, 1, [size]), size)
    flat = drop_out_of_range(c, flat_indices(c, places, axis), places, size)
    x = c.reshape(c.x, (c.x.type.size,))
    count = updates.type.size
    y = _written(c, x, c.reshape(flat, (count, 1)), c.reshape(updates, (count,)), False)
    return c.reshape(y, c.x.type.dims)
