"""NonMaximumSuppression."""

from __future__ import annotations

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.sources import number, requested_shape
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.elementwise.logic import Equal, GreaterOrEqual, Where
from vknn.ops.indexing.gather import GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.movement.shape import Concat, Pad, Slice
from vknn.ops.reduction import ReduceMax, ReduceSum

_LOWEST = float(np.finfo(np.float32).min)


@layer("NonMaximumSuppression", inputs=(2, 5), outputs=(1, 4))
def non_maximum_suppression(c: Context) -> list[Value]:
    """The boxes with the best scores that overlap no better one: boxes, scores, indices, counts.

    Boxes are centre, width and height. The score of a box is the best one of its classes.
    Candidates are boxes from the threshold on; where none reaches it the best box of all is given.
    """
    boxes, scores = c.x, c.value(1)
    suit = boxes.type.rank == scores.type.rank == 3 and boxes.type.dims[2] == 4
    suit = suit and boxes.type.dims[:2] == scores.type.dims[:2] and 0 not in scores.type.dims
    c.require(suit, f"takes boxes (B, N, 4) and scores (B, N, C), not {boxes.type}, {scores.type}")
    most = _most(c)
    best = c.add(ReduceMax((2,), False), scores)  # [B, N]
    # Suppression keeps the best box first, so this changes only results without candidates.
    first = c.add(ArgMax(1, True), best)
    chosen = (_by_class if c.params.perClassSuppression else _together)(c, best, most)
    behind = c.add(Slice((1,), (most,), (1,)), chosen)
    chosen = c.add(Concat(1), first, behind) if most > 1 else first
    there = c.add(GreaterOrEqual(), chosen, c.scalar(0, DType.INT32))
    count = c.add(ReduceSum((1,), False), c.cast(there, DType.FLOAT32))
    return [_rows(c, boxes, chosen, there), _rows(c, scores, chosen, there), chosen, count]


def _most(c: Context) -> int:
    """The most boxes to select."""
    batch, _, classes = c.value(1).type.dims
    (most,) = c.ints(4, "maxBoxes")[:1] if len(c.inputs) > 4 else [int(c.params.maxBoxes)]
    c.require(most > 0, f"wants {most} boxes")
    requested_shape(c, (batch, most, classes + 4), "maxBoxes")
    return most


def _limits(c: Context) -> tuple[float, float]:
    iou = number(c, 2, "iouThreshold") if len(c.inputs) > 2 else c.params.iouThreshold
    least = number(c, 3, "scoreThreshold") if len(c.inputs) > 3 else c.params.scoreThreshold
    return iou, least


def _suppressed(c: Context, scores: Value, most: int) -> Value:
    """Indices [B, C, most], then -1, for scores [B, C, N]."""
    iou, least = _limits(c)
    boxes, half = c.x, c.scalar(0.5)
    centre, size = (c.add(Slice((i,), (i + 2,), (2,)), boxes) for i in (0, 2))
    reach = c.add(ew.Mul(), size, half)
    corners = c.add(ew.Sub(), centre, reach), c.add(ew.Add(), centre, reach)
    op = NonMaxSuppression(most, iou, max(least, _LOWEST), score_inclusive=True)
    return c.add_many(op, c.add(Concat(2), *corners), scores)[0]


def _together(c: Context, best: Value, most: int) -> Value:
    batch, boxes = best.type.dims
    found = _suppressed(c, c.reshape(best, (batch, 1, boxes)), most)
    return c.reshape(found, (batch, most))


def _by_class(c: Context, best: Value, most: int) -> Value:
    """Suppression of each box among those of its best class, then the best over all classes."""
    batch, boxes, classes = c.value(1).type.dims
    label = c.add(ArgMax(2, True), c.value(1))
    numbers = c.constant(np.arange(classes, dtype=np.int32), "classes")
    own = c.transpose(c.add(Equal(), label, numbers), (0, 2, 1))
    scores = c.reshape(best, (batch, 1, boxes))
    scores = c.add(Where(), own, scores, c.scalar(-np.inf))
    each = min(most, boxes)
    found = c.reshape(_suppressed(c, scores, each), (batch, classes * each, 1))
    rows = np.arange(batch, dtype=np.int32).reshape(batch, 1, 1)
    rows = np.repeat(rows, classes * each, axis=1)
    tuples = c.add(Concat(2), c.constant(rows, "batch"), found)
    ones = c.constant(np.ones((batch, classes * each), np.int32), "ones")
    nothing = c.constant(np.zeros((batch, boxes), np.int32), "nothing")
    stays = c.add(ScatterND("none", from_end=False), nothing, tuples, ones)
    ranked = c.add(Where(), c.cast(stays, DType.BOOL), best, c.scalar(-np.inf))
    values, order = c.add_many(TopK(1, each), ranked)
    real = c.add(GreaterOrEqual(), values, c.scalar(_LOWEST))
    order = c.add(Where(), real, order, c.scalar(-1, DType.INT32))
    return c.add(Pad((0, 0, 0, most - each), "constant", -1.0), order) if most > each else order


def _rows(c: Context, x: Value, chosen: Value, there: Value) -> Value:
    """The selected rows of x [B, N, n], then zeros."""
    shape = (*chosen.type.dims, 1)
    places = c.reshape(c.add(ew.Max(), chosen, c.scalar(0, DType.INT32)), shape)
    return c.add(Where(), c.reshape(there, shape), c.add(GatherND(1), x, places), c.scalar(0.0))
