"""DetectionOutput of SSD: boxes decoded from priors, and non-maximum suppression by class.

Liu et al., SSD: Single Shot MultiBox Detector, arXiv:1512.02325.
"""

from __future__ import annotations

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.detection.image_detections import LOWEST, ImageDetections
from vknn.ops.elementwise.binary import Div
from vknn.ops.elementwise.logic import Equal, Greater, Less, Where
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import CumSum

_CORNER = "CORNER"
_CODES = tuple(
    prefix + code
    for prefix in ("", "caffe.PriorBoxParameter.")
    for code in (_CORNER, "CENTER_SIZE")
)


@layer("DetectionOutput", inputs=(3, 5))
def detection_output(c: Context) -> Value:
    """Detections of SSD as rows.

    Inputs: location, confidence, priors; with five inputs those of the first stage (ARM) follow.
    """
    c.require(len(c.inputs) != 4, "takes 3 or 5 inputs, not 4")
    encoded, classes = c.bool("variance_encoded_in_target", False), c.int("num_classes")
    c.require(classes >= 1, f"num_classes is {classes}")
    best_class, background = c.bool("decrease_label_id", False), c.int("background_label_id", 0)
    c.require(not best_class or background == 0, "decrease_label_id needs background_label_id 0")
    priors, ended = _priors(c, encoded)
    count = priors.type.dims[2] // 4
    confidence = _flat(c, 1, count * classes, "class predictions")
    refinement = None
    if len(c.inputs) == 5:
        refinement = _flat(c, 4, 4 * count, "box predictions of the first stage")
        confidence = _background_if_no_object(c, confidence, classes, background)
    if ended is not None:
        confidence = _lowest_past_end(c, confidence, classes, ended)
    own_boxes = not c.bool("share_location", True)
    op = ImageDetections(
        classes,
        _rows(c, confidence.type.dims[0], count, classes),
        c.float("nms_threshold"),
        c.float("confidence_threshold", float(LOWEST)),
        top_k=_number(c, "top_k"),
        keep_top_k=_number(c, "keep_top_k"),
        background=background if 0 <= background < classes else -1,
        corners=c.text("code_type", _CORNER, choices=_CODES).endswith(_CORNER),
        encoded=encoded,
        own_boxes=own_boxes,
        best_class=best_class,
        clip_before=c.bool("clip_before_nms", False) or c.bool("clip", False),
        clip_after=c.bool("clip_after_nms", False),
        refined_size=_refined_size(c),
    )
    location = _flat(c, 0, count * 4 * (classes if own_boxes else 1), "box logits")
    optional = () if refinement is None else (refinement,)
    return c.add(op, location, confidence, priors, *optional)


def _refined_size(c: Context) -> tuple[int, int]:
    """Width and height by which OpenVINO divides the priors that the first stage has moved.

    Where priors count pixels it divides them twice: as they are, and once more when they are moved.
    """
    if len(c.inputs) < 5 or c.bool("normalized", True):
        return 1, 1
    return c.int("input_width", 1), c.int("input_height", 1)


def _number(c: Context, name: str) -> int:
    number = c.int(name, -1)
    return number if number >= 0 else -1


def _flat(c: Context, number: int, count: int, what: str) -> Value:
    """An input as [N, count]."""
    x = c.float_input(number)
    dims = x.type.dims
    size = 1
    for dim in dims[1:]:
        size *= dim
    c.require(len(dims) >= 2 and size == count, f"{what} {list(dims)} are not {count} an image")
    return c.reshape(x, (dims[0], count))


def _rows(c: Context, images: int, priors: int, classes: int) -> int:
    """The number of rows of the result: the file's, or for other image sizes by the attributes."""
    if c.is_as_declared:
        dims = c.declared()
        c.require(len(dims) == 4 and dims[-1] == 7, f"its output {list(dims)} is not [1, 1, n, 7]")
        return dims[0] * dims[1] * dims[2]
    keep, most = _number(c, "keep_top_k"), _number(c, "top_k")
    return images * (keep if keep > 0 else classes * (most if most > 0 else priors))


def _priors(c: Context, encoded: bool) -> tuple[Value, Value | None]:
    """Priors [1 or N, 2 (1 if encoded), P * 4], and [1 or N, P]: whether a prior is past the end.

    Priors that are not normalized have five numbers each and count pixels; the first of the five is
    -1 past the end.
    """
    x, parts = c.float_input(2), 1 if encoded else 2
    dims = x.type.dims
    # Parts that are not needed (variances that the target encodes already) are ignored.
    c.require(len(dims) == 3 and dims[1] >= parts, f"priors {list(dims)} are not [1, {parts}, n]")
    if c.bool("normalized", True):
        c.require(dims[2] % 4 == 0, f"priors {list(dims)} are not four numbers each")
        return (c.add(Slice((0,), (parts,), (1,)), x) if dims[1] > parts else x), None
    c.require(dims[2] % 5 == 0, f"priors {list(dims)} are not five numbers each")
    height, width = c.int("input_height", 1), c.int("input_width", 1)
    c.require(min(height, width) >= 1, f"an image of {height} x {width} for its priors")
    images, count = dims[0], dims[2] // 5
    boxes = c.reshape(c.add(Slice((0,), (1,), (1,)), x), (images, count, 5))
    number = c.reshape(c.add(Slice((0,), (1,), (2,)), boxes), (images, count))
    before = c.cast(c.add(Equal(), number, c.scalar(-1.0)), DType.INT32)
    ended = c.add(Greater(), c.add(CumSum(1), before), c.scalar(0, DType.INT32))
    size = c.constant(np.array([width, height, width, height], np.float32), "image")
    corners = c.add(Div(), c.add(Slice((1,), (5,), (2,)), boxes), size)
    priors = c.reshape(corners, (images, 1, 4 * count))
    if not encoded:
        # Variances are at the start of their row, four per prior.
        spread = c.add(Slice((1, 0), (2, 4 * count), (1, 2)), x)
        priors = c.add(Concat(1), priors, spread)
    return priors, ended


def _background_if_no_object(c: Context, confidence: Value, classes: int, background: int) -> Value:
    """Confidences in which priors without an object in the first stage are background."""
    images, size = confidence.type.dims
    arm = c.reshape(_flat(c, 3, size // classes * 2, "first stage"), (images, size // classes, 2))
    score = c.add(Slice((1,), (2,), (2,)), arm)
    nothing = c.add(Less(), score, c.scalar(c.float("objectness_score", 0.0)))
    instead = (np.arange(classes) == background).astype(np.float32)
    wide = c.reshape(confidence, (images, size // classes, classes))
    picked = c.add(Where(), nothing, c.constant(instead, "background"), wide)
    return c.reshape(picked, (images, size))


def _lowest_past_end(c: Context, confidence: Value, classes: int, ended: Value) -> Value:
    """Confidences in which priors past the end have the lowest value."""
    images, size = confidence.type.dims
    wide = c.reshape(confidence, (images, size // classes, classes))
    flags = c.reshape(ended, (*ended.type.dims, 1))
    picked = c.add(Where(), flags, c.scalar(float(LOWEST)), wide)
    return c.reshape(picked, (images, size))
