"""Caches of keys and values of a fixed length."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.layer_context import LayerContext
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import And, GreaterOrEqual, Less, Where
from vknn.ops.indexing.gather import GatherND
from vknn.ops.movement.shape import Concat, Expand, Identity


@operator("TensorScatter", 24, inputs=(2, 3), any_type=True)
def tensor_scatter(c: Context) -> Value:
    """A cache with new entries along an axis, from a place on that each of the batch has"""
    past, update = c.value(0), c.value(1)
    axis, dims = c.axis(c.int("axis", -2), c.rank), past.type.dims
    c.require(axis > 0, "writes along the batch")
    ring = c.text("mode", "linear", ("linear", "circular")) == "circular"
    size, count = dims[axis], (update.type.dims + (0,) * c.rank)[axis]
    same = update.type.dims == (*dims[:axis], count, *dims[axis + 1 :]) and count <= size
    c.require(same, f"writes {update.type} into {past.type} along axis {axis}")
    first = _first(c, dims[0], size if ring else size - count)
    if past.type.size == 0:
        return c.add(Identity(), past)
    return written(c, past, update, first, axis)


def _first(c: Context, batch: int, most: int) -> Value:
    """The places of the first new entries, int32 [B]; from 0 to ``most``, or any in a ring."""
    if c.optional(2) is None:
        return c.constant(np.zeros(batch, np.int32), "first")
    places = c.value(2)
    c.require(places.type.size == batch, f"has {places.type} places for a batch of {batch}")
    if c.text("mode", "linear") == "circular":
        wrapped = c.add(ew.Mod(), places, c.scalar(max(most, 1), places.type.dtype))
        return c.reshape(c.cast(wrapped, DType.INT32), (batch,))
    return c.reshape(c.indices(2, most + 1, from_end=False), (batch,))


def written(
    c: LayerContext, past: Value, update: Value, first: Value, axis: int, ring: bool = True
) -> Value:
    """``past`` with the entries of ``update`` from ``first`` [B], int32, on.

    ``ring``: behind the last place comes the first; else what goes beyond the end is left out. Each
    entry is looked up in both tensors, joined: that suits all dtypes and writes no place twice.
    """
    dims, (size, count) = past.type.dims, (t.type.dims[axis] for t in (past, update))
    batch = dims[0]
    own = c.constant(np.arange(size, dtype=np.int32)[None], "places")
    steps = c.add(ew.Sub(), own, c.reshape(first, (batch, 1)))
    if ring:
        steps = c.add(ew.Mod(), steps, c.scalar(size, DType.INT32))
    new = c.add(Less(), steps, c.scalar(count, DType.INT32))
    if not ring:
        new = c.add(And(), new, c.add(GreaterOrEqual(), steps, c.scalar(0, DType.INT32)))
    behind = c.add(ew.Add(), steps, c.scalar(size, DType.INT32))
    return picked(c, c.add(Concat(axis), past, update), c.add(Where(), new, behind, own), axis)


def picked(c: LayerContext, x: Value, places: Value, axis: int) -> Value:
    """Entries of ``x`` along an axis at places int32 [B, count], others for each of the batch."""
    dims, (batch, count) = x.type.dims, places.type.dims
    inner, rest = math.prod(dims[1:axis]), dims[axis + 1 :]
    all_places = c.add(Expand((batch, inner, count)), c.reshape(places, (batch, 1, count)))
    all_places = c.reshape(all_places, (batch * inner, count, 1))
    flat = c.reshape(x, (batch * inner, dims[axis], *rest))
    found = c.add(GatherND(1, from_end=False), flat, all_places)
    return c.reshape(found, (*dims[:axis], count, *rest))
