"""argMax, argMin, topK and argSort; indices are floats."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK


@layer("argMax")
@layer("argMin")
def extreme(c: Context) -> Value:
    """Index of the largest or smallest along an axis; the first of equal ones."""
    axis = c.axis(c.params.axis, c.x.type.rank)
    kind = ArgMax if c.layer.type == "argMax" else ArgMin
    return c.add(kind(axis, not c.params.removeDim), c.x)


@layer("topK", inputs=(1, 2), outputs=(1, 2))
def top_k(c: Context) -> tuple[Value, ...]:
    """The K largest or smallest along an axis, best first; of equal ones the first comes first."""
    p, dims = c.params, c.x.type.dims
    axis = c.axis(p.axis, len(dims))
    given = c.ints(1, "K") if len(c.inputs) > 1 else [int(p.K)]
    good = len(given) == 1 and 1 <= given[0] <= dims[axis]
    c.require(good, f"K {given} does not suit axis {axis} of {c.x.type}")
    return c.add_many(TopK(axis, given[0], not p.useBottomK), c.x)


@layer("argSort")
def arg_sort(c: Context) -> Value:
    """Indices that sort along an axis, counted from the front; equal ones keep their order."""
    p, dims = c.params, c.x.type.dims
    c.require(0 <= p.axis < len(dims), f"axis {p.axis} does not exist in {c.x.type}")
    return c.add_many(TopK(p.axis, dims[p.axis], p.descending), c.x)[1]
