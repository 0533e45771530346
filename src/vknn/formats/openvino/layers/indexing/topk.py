"""Largest and smallest elements and their indices: ArgMax, TopK."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.movement.concat import same_dtype
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat


@layer("ArgMax")
def argmax(c: Context) -> Value:
    """The indices of the top_k largest along an axis; with out_max_val only their values.

    Without axis: the largest of each image, [N, 1, top_k]; with out_max_val their values follow the
    indices, [N, 2, top_k].
    """
    both = c.bool("out_max_val", False)
    if c.has_attribute("axis"):
        values, indices = _top(c, c.x, c.axis(c.int("axis"), c.rank), c.int("top_k"))
        return values if both else indices
    c.require(c.rank >= 1, "has an input without axes")
    count = c.x.type.dims[0]
    each = c.x.type.size // count if count else 0
    values, indices = _top(c, c.reshape(c.x, (count, 1, each)), 2, c.int("top_k"))
    found = c.add(Concat(1), *same_dtype(c, (indices, values))) if both else indices
    # Files pad the output's shape to the input's rank with ones at the end.
    more = max(0, len(c.port().dims) - 3)
    return c.reshape(found, (*found.type.dims, *[1] * more))


@layer("TopK", inputs=2, outputs=(1, 2))
def top_k(c: Context) -> Sequence[Value]:
    """The k largest or smallest, best first, or in the order of their indices with sort "index"."""
    k = c.input_ints(1, "k")
    c.require(len(k) == 1, f"k has {len(k)} elements, not 1")
    largest = c.text("mode", choices=("max", "min")) == "max"
    ordered = c.text("sort", choices=("value", "index", "none")) != "index"
    return _top(c, c.x, c.axis(c.int("axis", -1), c.rank), k[0], largest, ordered)


def _top(
    c: Context, x: Value, axis: int, k: int, largest: bool = True, ordered: bool = True
) -> tuple[Value, ...]:
    """Values and int32 indices; of equal elements the one with the lower index comes first."""
    size = x.type.dims[axis]
    c.require(1 <= k <= size, f"takes the top {k} of {size} elements along axis {axis}")
    return c.add_many(TopK(axis, k, largest, ordered), x)
