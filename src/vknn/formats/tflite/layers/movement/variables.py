"""VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE.

CALL_ONCE, which calls a subgraph, is converted with the other calls (``subgraph_builder``).
"""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.layer_context import NeedsData
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.movement.shape import Slice


@operator("VAR_HANDLE", inputs=0)
def handle(c: Context) -> Value:
    """The number of a variable."""
    return c.constant(np.array(c.state.resources.number(c.operator), np.int64), "handle")


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
