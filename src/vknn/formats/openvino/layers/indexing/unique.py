"""Unique elements of a vector, in as many places as it has elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Add, Min, Sub
from vknn.ops.elementwise.logic import Equal, Less, NotEqual, Where
from vknn.ops.indexing.gather import Gather, SearchSorted
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import CumSum


@dataclass(frozen=True)
class _Sorted:
    """Unique elements: ``values`` [n], the last one repeated; ``counts`` [n], then 0.

    ``inverse`` [n]: index of each element's value in ``values``; ``first`` [n]: index of the first
    occurrence of each value.
    """

    values: Value
    counts: Value
    inverse: Value
    first: Value


@layer("Unique", outputs=(1, 3))
def unique(c: Context) -> list[Value]:
    """The unique elements, ascending or in order of first occurrence.

    Then, if asked for, the index of each element among them, and their counts. The last one is
    repeated up to size n with a count of 0: all sizes are fixed, so that a device can compute them
    by a sort, running sums and searches.
    """
    inverse, counts = c.bool("return_inverse"), c.bool("return_counts")
    wanted = 1 + inverse + counts
    c.require(len(c.layer.outputs) <= wanted, f"has {len(c.layer.outputs)} outputs, not {wanted}")
    c.require(c.rank == 1, f"takes a vector, not the shape {list(c.x.type.dims)}")
    found = _ascending(c) if c.bool("sorted") else _in_order(c, _ascending(c))
    asked = ((True, found.values), (inverse, found.inverse), (counts, found.counts))
    return [value for there, value in asked if there]


def _ascending(c: Context) -> _Sorted:
    n = c.x.type.size
    if n == 1:
        zero, one = (c.constant(np.array([v], np.int32)) for v in (0, 1))
        return _Sorted(c.x, one, zero, zero)
    values, place = c.add_many(TopK(0, n, largest=False), c.x)
    before, after = (c.add(Slice((s,), (s + n - 1,)), values) for s in (0, 1))
    changes = c.cast(c.add(NotEqual(), before, after), DType.INT32)
    # The index of each sorted element's group, and where each group begins and ends.
    group = c.add(CumSum(0), _behind(c, changes, 0))
    numbers = c.constant(np.arange(c.makeable(n), dtype=np.int32), "numbers")
    begin, end = (c.add(SearchSorted(right), group, numbers) for right in (False, True))
    # Behind the last group both are n, which Gather takes for the last element.
    kept = c.add(Gather(0, from_end=False), values, begin)
    first = c.add(Gather(0, from_end=False), place, begin)
    inverse = c.add(SearchSorted(), kept, c.x)
    return _Sorted(kept, c.add(Sub(), end, begin), inverse, first)


def _behind(c: Context, x: Value, number: int) -> Value:
    """A vector with ``number`` in front."""
    return c.add(Concat(0), c.constant(np.array([number], np.int32), "front"), x)


def _in_order(c: Context, found: _Sorted) -> _Sorted:
    """The unique elements in order of first occurrence."""
    n = c.x.type.size
    numbers = c.constant(np.arange(c.makeable(n), dtype=np.int32), "numbers")
    first = c.add(Gather(), found.first, found.inverse)  # first occurrence of each element's value
    is_first = c.cast(c.add(Equal(), first, numbers), DType.INT32)
    number = c.add(CumSum(0), is_first)  # number of unique values up to each element
    most = c.add(Slice((n - 1,), (n,)), number)
    nth = c.add(Min(), c.add(Add(), numbers, c.scalar(1, DType.INT32)), most)
    place = c.add(SearchSorted(), number, nth)
    values = c.add(Gather(), c.x, place)
    inverse = c.add(Sub(), c.add(Gather(), number, first), c.scalar(1, DType.INT32))
    counts = c.add(Gather(), found.counts, c.add(Gather(), found.inverse, place))
    there = c.add(Less(), numbers, most)
    counts = c.add(Where(), there, counts, c.scalar(0, DType.INT32))
    return _Sorted(values, counts, inverse, place)
