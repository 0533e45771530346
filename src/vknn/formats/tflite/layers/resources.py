"""VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and HASHTABLE with its FIND, IMPORT and SIZE.

CALL_ONCE, which calls a subgraph, is converted with the other calls (``subgraph_builder``).
"""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.layer_context import NeedsData
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Slice
from vknn.ops.text.hash_table import FindKeys, SortKeys


@operator("VAR_HANDLE", "HASHTABLE", inputs=0)
def handle(c: Context) -> Value:
    """The number of a variable or table."""
    return c.constant(np.int64(c.state.resources.number(c.operator)), "handle")


@operator("READ_VARIABLE", takes_quantized=True)
def read_variable(c: Context) -> Value:
    """The present value of a variable."""
    found = c.resource(table=False)
    value = c.state.values.get(found.states[0])
    if value is None:
        c.fail(
            f"{found.label} has no value yet: what assigns it (a CALL_ONCE, another signature, an "
            "earlier run) has to run first"
        )
    declared = c.target()
    c.require(
        value.type.dtype is declared.dtype,
        f"{found.label} holds {value.type.dtype.value}, it gives {declared.type_name}",
    )
    return _as_stated(c, value, declared.stated)


def _as_stated(c: Context, value: Value, shape: tuple[int, ...]) -> Value:
    """A variable's value in the shape that the file states for a READ_VARIABLE, if it states one.

    TensorFlow Lite fills that with the first elements, also where the file calls an axis open. Of
    a value with fewer elements it would give what happens to lie behind them; here that is given
    as it is.
    """
    if not shape:
        return value
    if not value.type.is_static:  # assigned by this graph: known when that has run
        raise NeedsData(None)
    count = math.prod(shape)
    if value.type.size < count or value.type.dims == shape:
        return value
    if value.type.size > count:
        value = c.add(Slice((0,), (count,)), c.reshape(value, (value.type.size,)))
    return c.reshape(value, shape)


@operator("ASSIGN_VARIABLE", inputs=2, outputs=0, takes_quantized=True)
def assign_variable(c: Context) -> list[Value]:
    """A new value, of any shape."""
    c.state.assign(c.resource(table=False).states[0], c.value(1))
    return []


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
