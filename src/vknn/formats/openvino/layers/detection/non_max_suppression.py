"""NonMaxSuppression: boxes with the best scores that do not overlap."""

from __future__ import annotations

import numpy as np

from vknn.formats.boxes import corners
from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.detection import non_max_suppression as nms
from vknn.ops.elementwise.logic import GreaterOrEqual, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat, Pad


@layer("NonMaxSuppression", inputs=(2, 5))
def non_max_suppression(c: Context) -> Value:
    """Rows of image, class and box, best first over all classes; then rows of -1."""
    boxes, scores = c.float_input(0), c.float_input(1)
    shape = scores.type.dims
    good = boxes.type.rank == len(shape) == 3 and boxes.type.dims[2] == 4
    good = good and boxes.type.dims[:2] == (shape[0], shape[2])
    c.require(good, f"boxes {boxes.type} and scores {scores.type} do not suit each other")
    most = _most(c, shape[2])
    count = shape[0] * shape[1] * most
    rows = _rows(c, count)
    c.makeable(3 * max(rows, count))
    if min(rows, count) == 0:
        return c.constant(np.full((rows, 3), -1, np.int32))
    if c.bool("center_point_box", False):
        boxes = corners(c, boxes)
    threshold = c.input_scalar(3, "the IoU threshold") if len(c.inputs) > 3 else 1.0
    least = c.input_scalar(4, "the score threshold") if len(c.inputs) > 4 else 0.0
    op = nms.NonMaxSuppression(most, threshold, least, iou_inclusive=True)
    which, best, _ = c.add_many(op, boxes, scores)
    return _listed(c, c.reshape(which, (count,)), c.reshape(best, (count,)), shape, rows)


def _most(c: Context, boxes: int) -> int:
    """The most boxes of a class."""
    if len(c.inputs) < 3:
        return boxes
    found = int(c.input_scalar(2, "the number of boxes"))
    c.require(found >= 0, f"at most {found} boxes of a class")
    return min(found, boxes)


def _rows(c: Context, count: int) -> int:
    """The number of rows of the result."""
    if not c.is_as_declared:
        return count
    dims = c.declared()
    c.require(len(dims) == 2 and dims[1] == 3, f"its output {list(dims)} is not [n, 3]")
    return dims[0]


def _listed(c: Context, which: Value, best: Value, shape: tuple[int, ...], rows: int) -> Value:
    """The boxes found (-1: none) as rows: the best scores first, or in order of class."""
    images, classes, count = shape[0], shape[1], which.type.size
    there = c.add(GreaterOrEqual(), which, c.scalar(0, DType.INT32))
    if c.bool("sort_result_descending", True):
        key = c.add(Where(), there, best, c.scalar(-np.inf))
    else:
        places = c.constant(np.arange(count, 0, -1, dtype=np.int32), "places")
        key = c.add(Where(), there, places, c.scalar(0, DType.INT32))
    listed = min(rows, count)
    order = c.add_many(TopK(0, listed), key)[1]
    labels = np.stack(np.divmod(np.arange(count) // (count // (images * classes)), classes), 1)
    heads = c.add(Gather(0), c.constant(labels.astype(np.int32), "classes"), order)
    found = c.reshape(c.add(Gather(0), which, order), (listed, 1))
    heads = c.add(
        Where(),
        c.add(GreaterOrEqual(), found, c.scalar(0, DType.INT32)),
        heads,
        c.scalar(-1, DType.INT32),
    )
    y = c.add(Concat(1), heads, found)
    return y if listed == rows else c.add(Pad((0, 0, rows - listed, 0), value=-1), y)
