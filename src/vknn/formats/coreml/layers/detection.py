"""NonMaximumSuppression."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.sources import number, requested_shape
from vknn.formats.coreml.registry import layer
from vknn.formats.coreml.selection import BoxLimits, chosen_rows, is_there, select
from vknn.graph import DType, Value
from vknn.ops.indexing.topk import ArgMax
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import ReduceMax, ReduceSum


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
    chosen = select(c, boxes, scores, best, _limits(c), most, c.params.perClassSuppression)
    behind = c.add(Slice((1,), (most,), (1,)), chosen)
    chosen = c.add(Concat(1), first, behind) if most > 1 else first
    there = is_there(c, chosen)
    count = c.add(ReduceSum((1,), False), c.cast(there, DType.FLOAT32))
    rows = (chosen_rows(c, x, chosen, there) for x in (boxes, scores))
    return [*rows, chosen, count]


def _most(c: Context) -> int:
    """The most boxes to select."""
    batch, _, classes = c.value(1).type.dims
    (most,) = c.ints(4, "maxBoxes")[:1] if len(c.inputs) > 4 else [int(c.params.maxBoxes)]
    c.require(most > 0, f"wants {most} boxes")
    requested_shape(c, (batch, most, classes + 4), "maxBoxes")
    return most


def _limits(c: Context) -> BoxLimits:
    iou = number(c, 2, "iouThreshold") if len(c.inputs) > 2 else c.params.iouThreshold
    least = number(c, 3, "scoreThreshold") if len(c.inputs) > 3 else c.params.scoreThreshold
    return BoxLimits(iou, least)
