"""Caches of a beam search: which beam each token of a sequence came from."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import GatherND
from vknn.ops.movement.shape import Concat, Expand, Slice


def of_beams(c: Context, cache: Value, before: int, total: int, number: int) -> Value:
    """The first ``total`` entries of a cache [B * beams, heads, max, D].

    The first ``before`` of them are those of the beams that the input ``number``, cache_indirection
    [B, beams, max], names.
    """
    if cache.type.dims[2] != total:
        cache = c.add(Slice((0,), (total,), (2,)), cache)
    given = c.optional(number)
    if given is None or before == 0:
        return cache
    c.require(given.type.rank == 3, f"has the beams {given.type}")
    entries, beams, _ = given.type.dims
    good = entries * beams == cache.type.dims[0] and given.type.dims[2] >= before
    c.require(good, f"has the beams {given.type} for the cache {cache.type}")
    named = c.cast(c.add(Slice((0,), (before,), (2,)), given), DType.INT32)
    first = np.arange(entries, dtype=np.int32).reshape(entries, 1, 1) * beams
    rows = c.add(ew.Add(), named, c.constant(first, "first"))
    rows = c.reshape(rows, (entries * beams, before, 1))
    places = c.constant(np.arange(before, dtype=np.int32)[:, None], "places")
    places = c.add(Expand((entries * beams, before, 1)), places)
    tuples = c.add(Concat(2), rows, places)
    turned = c.transpose(cache, (0, 2, 1, 3))
    old = c.transpose(c.add(GatherND(0, from_end=False), turned, tuples), (0, 2, 1, 3))
    return c.add(Concat(2), old, c.add(Slice((before,), (total,), (2,)), cache))
