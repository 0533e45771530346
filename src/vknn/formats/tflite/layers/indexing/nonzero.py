"""WHERE and UNIQUE, whose output sizes depend on data."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.indexing.nonzero import NonZero, Unique


@operator("WHERE", takes_quantized=True)
def where(c: Context) -> Value:
    """Indices [count, rank] of the elements that are not zero, in row-major order."""
    c.require(c.x.type.rank > 0, "asks where a single value is not zero")
    return c.cast(c.add(NonZero(), c.x), c.target().dtype)


@operator("UNIQUE", outputs=2, takes_quantized=True)
def unique(c: Context) -> list[Value]:
    """Distinct elements in order of first occurrence, and the index of each element among them."""
    values, which = c.add_many(Unique(), c.x)
    return [values, c.cast(which, c.target(1).dtype)]
