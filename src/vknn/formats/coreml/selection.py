"""Selection of boxes: those with the best scores that overlap no better one, as ops of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.boxes import corners
from vknn.formats.layer_context import LayerContext
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.elementwise.logic import Equal, GreaterOrEqual, Where
from vknn.ops.indexing.gather import GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.movement.shape import Concat, Pad

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class BoxLimits:
    """BoxLimits of a selection.

    ``iou``: intersection over union up to which two boxes both stay; ``score``: the least score of
    a box that is looked at.
    """

    iou: float
    score: float


def select(
    c: LayerContext,
    boxes: Value,
    scores: Value,
    best: Value,
    limits: BoxLimits,
    most: int,
    by_class: bool,
) -> Value:
    """Indices, int32 [B, most], of the boxes that stay, best first, then -1.

    ``boxes`` [B, N, 4]: centre, width and height; ``scores`` [B, N, C]; ``best`` [B, N]: the best
    score of each box. ``by_class``: only boxes with the same best class suppress each other.
    """
    if by_class:
        return _by_class(c, boxes, scores, best, limits, most)
    batch, count = best.type.dims
    found = _suppressed(c, boxes, c.reshape(best, (batch, 1, count)), limits, most)
    return c.reshape(found, (batch, most))


def is_there(c: LayerContext, chosen: Value) -> Value:
    """Whether there is a box, for indices as of :func:`select`."""
    return c.add(GreaterOrEqual(), chosen, c.scalar(0, DType.INT32))


def chosen_rows(c: LayerContext, x: Value, chosen: Value, there: Value) -> Value:
    """The rows of x [B, N, n] that are chosen [B, m], then zeros: [B, m, n].

    ``there``: of :func:`is_there`.
    """
    shape = (*chosen.type.dims, 1)
    places = c.reshape(c.add(ew.Max(), chosen, c.scalar(0, DType.INT32)), shape)
    return c.add(Where(), c.reshape(there, shape), c.add(GatherND(1), x, places), c.scalar(0.0))


def _suppressed(
    c: LayerContext, boxes: Value, scores: Value, limits: BoxLimits, most: int
) -> Value:
    """Indices [B, C, most], then -1, for scores [B, C, N]."""
    least = max(limits.score, _LOWEST)
    op = NonMaxSuppression(most, limits.iou, least, score_inclusive=True)
    return c.add_many(op, corners(c, boxes), scores)[0]


def _by_class(
    c: LayerContext, boxes: Value, scores: Value, best: Value, limits: BoxLimits, most: int
) -> Value:
    """Suppression of each box among those of its best class, then the best over all classes."""
    batch, count, classes = scores.type.dims
    label = c.add(ArgMax(2, True), scores)
    numbers = c.constant(np.arange(classes, dtype=np.int32), "classes")
    own = c.transpose(c.add(Equal(), label, numbers), (0, 2, 1))
    apart = c.add(Where(), own, c.reshape(best, (batch, 1, count)), c.scalar(-np.inf))
    each = min(most, count)
    found = _suppressed(c, boxes, apart, limits, each)
    found = c.reshape(found, (batch, classes * each, 1))
    rows = np.arange(batch, dtype=np.int32).reshape(batch, 1, 1)
    rows = np.repeat(rows, classes * each, axis=1)
    tuples = c.add(Concat(2), c.constant(rows, "batch"), found)
    ones = c.constant(np.ones((batch, classes * each), np.int32), "ones")
    nothing = c.constant(np.zeros((batch, count), np.int32), "nothing")
    stays = c.add(ScatterND("none", from_end=False), nothing, tuples, ones)
    ranked = c.add(Where(), c.cast(stays, DType.BOOL), best, c.scalar(-np.inf))
    values, order = c.add_many(TopK(1, each), ranked)
    real = c.add(GreaterOrEqual(), values, c.scalar(_LOWEST))
    order = c.add(Where(), real, order, c.scalar(-1, DType.INT32))
    return c.add(Pad((0, 0, 0, most - each), "constant", -1.0), order) if most > each else order
