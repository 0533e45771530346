"""Gradients of entries looked up or written by indices: they go the other way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.errors import UnsupportedLayerError
from vknn.graph import Value
from vknn.ops import elementwise as e
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.indexing.gather import Gather, GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat
from vknn.training.gradients import gradient
from vknn.training.scope import Scope


@gradient(Gather)
def gather(g: Scope, dy: Value) -> tuple[Value, None]:
    """dy added up where its entries were taken from"""
    op, x, indices = g.op(Gather), g.x(0), g.x(1)
    rank, count = x.type.rank, indices.type.rank
    axis = op.axis % rank
    size, before = x.type.dims[axis], x.type.dims[:axis]
    # The axes of the indices first, since that is how ScatterND takes entries.
    front = [*range(axis, axis + count), *range(axis), *range(axis + count, dy.type.rank)]
    entries = g.transpose(dy, *front)
    places = _held(g, indices, (size,), op.from_end)
    tuples = g.reshape(places, *indices.type.dims, 1)
    moved = (size, *before, *x.type.dims[axis + 1 :])
    target = g.zeros(x.type.with_shape(moved))
    total = g.add(ScatterND("add"), target, tuples, entries)
    return g.transpose(total, *range(1, axis + 1), 0, *range(axis + 1, rank)), None


@gradient(GatherND)
def gather_nd(g: Scope, dy: Value) -> tuple[Value, None]:
    """dy added up where its entries were taken from"""
    op, x, indices = g.op(GatherND), g.x(0), g.x(1)
    dims, named = indices.type.dims, indices.type.dims[-1]
    sizes = x.type.dims[op.batch_dims : op.batch_dims + named]
    places = _held(g, indices, sizes, op.from_end)
    if op.batch_dims:
        grids = np.indices(dims[:-1])[: op.batch_dims]
        own = np.moveaxis(grids, 0, -1).astype(np.int32)
        joined = [g.constant(np.ascontiguousarray(own)), places]
        places = _joined(g, joined)
    return g.add(ScatterND("add"), g.zeros(x.type), places, dy), None


@gradient(ScatterND)
def scatter_nd(g: Scope, dy: Value) -> tuple[Value | None, None, Value | None]:
    """dy where nothing was written (added: everywhere); for the updates, dy where they went.

    Correct where the tuples lie within x and, unless updates are added, differ from one another.
    """
    op, indices, updates = g.op(ScatterND), g.x(1), g.x(2)
    if op.reduction not in ("none", "add"):
        lacking = f"ScatterND has no gradient for reduction {op.reduction!r}"
        raise UnsupportedLayerError([f"{g.node.origin} cannot be trained through: {lacking}"])
    dx = None
    if g.wants(0):
        clear = ScatterND("none", op.from_end)
        dx = dy if op.reduction == "add" else g.add(clear, dy, indices, g.zeros(updates.type))
    if not g.wants(2):
        return dx, None, None
    return dx, None, g.add(GatherND(from_end=op.from_end), dy, indices)


@gradient(TopK)
def top_k(g: Scope, dy: Value | None, _: Value | None = None) -> Value | None:
    """dy at the places of the elements that were taken"""
    if dy is None:
        return None
    op, x = g.op(TopK), g.x()
    rank = x.type.rank
    axis = op.axis % rank
    last = [i for i in range(rank) if i != axis] + [axis]
    back = [int(i) for i in np.argsort(last)]
    entries, places = g.transpose(dy, *last), g.transpose(g.node.outputs[1], *last)
    *lead, count = entries.type.dims
    own = np.moveaxis(np.indices((*lead, count))[:-1], 0, -1).astype(np.int32)
    tuples = g.reshape(places, *lead, count, 1)
    if lead:
        tuples = _joined(g, [g.constant(np.ascontiguousarray(own)), tuples])
    zeros = g.zeros(x.type.with_shape((*lead, x.type.dims[axis])))
    return g.transpose(g.add(ScatterND("add"), zeros, tuples, entries), *back)


def _held(g: Scope, indices: Value, sizes: Sequence[int], from_end: bool) -> Value:
    """Indices as they are looked up: counted from the front, and within the bounds."""
    limits = np.asarray(sizes, np.int32)
    limits = limits.reshape(()) if len(limits) == 1 else limits
    if from_end:
        below = g.add(Less(), indices, g.constant(np.zeros((), np.int32)))
        counted = g.add(e.Add(), indices, g.constant(limits))
        indices = g.add(Where(), below, counted, indices)
    least = g.add(e.Max(), indices, g.constant(np.zeros((), np.int32)))
    return g.add(e.Min(), least, g.constant(limits - np.int32(1)))


def _joined(g: Scope, tuples: list[Value]) -> Value:
    return g.add(Concat(-1), *tuples)
