"""HASHTABLE, HASHTABLE_IMPORT, HASHTABLE_FIND and HASHTABLE_SIZE."""

from __future__ import annotations

import numpy as np

from vknn.formats.layer_context import NeedsData
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.indexing.hash_table import FindKeys, SortKeys


@operator("HASHTABLE", inputs=0)
def handle(c: Context) -> Value:
    """The number of a table."""
    return c.constant(np.array(c.state.resources.number(c.operator), np.int64), "handle")


@operator("HASHTABLE_IMPORT", inputs=3, outputs=0)
def import_table(c: Context) -> list[Value]:
    """Filling of a table; one that was filled stays as it is."""
    found, keys, values = c.resource(table=True), c.value(1), c.value(2)
    given = keys.type.dtype, values.type.dtype
    c.require(
        given == found.types, f"fills {found.label}, {_arrow(found.types)}, with {_arrow(given)}"
    )
    c.require(
        keys.type.shape == values.type.shape,
        f"has {keys.type} keys and {values.type} values: each key needs one value",
    )
    if found.states[0] not in c.state.values:
        for name, filled in zip(found.states, _sorted(c, keys, values), strict=True):
            c.state.assign(name, filled)
    return []


def _arrow(types: tuple[DType, ...]) -> str:
    """Types of a table's keys and values, in words."""
    return " -> ".join(dtype.value for dtype in types)


def _sorted(c: Context, keys: Value, values: Value) -> tuple[Value, ...]:
    """The table's arrays, made at once where they are in the file, as they most often are."""
    if keys.constant is None or values.constant is None:
        return c.add_many(SortKeys(), keys, values)
    return tuple(c.constant(a) for a in SortKeys().reference(keys.constant, values.constant))


@operator("HASHTABLE_FIND", inputs=3)
def find(c: Context) -> Value:
    """Values of keys, and a default for those that the table lacks."""
    found = c.resource(table=True)
    if found.states[0] not in c.state.values:
        c.fail(f"{found.label} was not filled yet: its HASHTABLE_IMPORT has to run first")
    keys, values = (c.state.values[name] for name in found.states)
    return c.add(FindKeys(), keys, values, c.value(1), c.value(2))


@operator("HASHTABLE_SIZE")
def size(c: Context) -> Value:
    """Number of keys, int64 [1]; 0 before a table is filled."""
    keys = c.state.values.get(c.resource(table=True).states[0])
    if keys is None:
        return c.constant(np.zeros(1, np.int64), "size")
    if not keys.type.is_static:  # imported by this graph: known when that has run
        raise NeedsData(None)
    return c.constant(np.array(keys.type.dims, np.int64), "size")
