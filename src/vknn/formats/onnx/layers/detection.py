"""NonMaxSuppression: boxes with the best scores that do not overlap."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.boxes import corners
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops.detection import non_max_suppression as nms
from vknn.ops.elementwise import Max
from vknn.ops.elementwise.logic import GreaterOrEqual
from vknn.ops.indexing.gather import GatherND
from vknn.ops.indexing.nonzero import NonZero
from vknn.ops.movement.shape import Concat, Slice

#: Of a score that exceeds the lowest threshold of a kernel.
_LOWEST = float(np.nextafter(np.finfo(np.float32).min, np.float32(0)))


@operator("NonMaxSuppression", 10, 11, inputs=(2, 5))
def non_max_suppression(c: Context) -> Value:
    """Rows of batch, class and box, best first in each class, of boxes that do not overlap"""
    boxes, scores = c.value(0), c.value(1)
    dims = scores.type.dims
    good = boxes.type.rank == len(dims) == 3 and boxes.type.dims[2] == 4
    good = good and boxes.type.dims[:2] == (dims[0], dims[2])
    c.require(good, f"boxes {boxes.type} and scores {scores.type} do not suit each other")
    most = 0
    if c.optional(2) is not None:
        most = max(0, min(int(c.number(2, "max_output_boxes_per_class")), dims[2]))
    threshold = 0.0 if c.optional(3) is None else float(c.number(3, "iou_threshold"))
    c.require(0 <= threshold <= 1, f"has the iou_threshold {threshold}")
    least = -math.inf if c.optional(4) is None else float(c.number(4, "score_threshold"))
    count = dims[0] * dims[1] * most
    if count == 0:
        return c.constant(np.zeros((0, 3), np.int64), "none")
    centers = c.int("center_point_box", 0)
    c.require(centers in (0, 1), f"has the center_point_box {centers}, which is 0 or 1")
    if centers:
        boxes = corners(c, boxes)
    if c.optional(4) is None:  # then scores of -infinity count, too
        scores = c.add(Max(), scores, c.scalar(_LOWEST))
    which, _, _ = c.add_many(nms.NonMaxSuppression(most, threshold, least), boxes, scores)
    there = c.add(GreaterOrEqual(), which, c.scalar(0, DType.INT32))
    places = c.add(NonZero(), there)
    found = c.add(GatherND(), c.reshape(which, (*which.type.dims, 1)), places)
    rows = c.add(Concat(1), c.add(Slice((0,), (2,), (1,)), places), found)
    return c.cast(rows, DType.INT64)
