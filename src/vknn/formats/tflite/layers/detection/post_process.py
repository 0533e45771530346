"""NON_MAX_SUPPRESSION_V4 and V5, and TFLite_Detection_PostProcess."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import dequantized
from vknn.formats.tflite.layers.detection.detections import (
    Detections,
    PostProcessOptions,
    decoded_boxes,
)
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.detection.non_max_suppression import NonMaxSuppression


def _number(c: Context, number: int, what: str) -> float:
    data = c.data(number)
    c.require(data.size == 1 and data.dtype.kind == "f", f"has {what} of shape {data.shape}")
    return float(data.reshape(-1)[0])


def _suppressed(c: Context, sigma: float) -> list[Value]:
    """Indices and scores of the chosen boxes, both padded with zeros, and their number."""
    boxes, scores = c.x, c.value(1)
    most = c.number(2, "the number of boxes")
    count = boxes.type.dims[0] if boxes.type.rank else 0
    good = boxes.type.dims == (count, 4) and scores.type.dims == (count,)
    c.require(good and most >= 0, f"chooses {most} of {boxes.type}, {scores.type}")
    iou, least = _number(c, 3, "an overlap"), _number(c, 4, "a least score")
    op = NonMaxSuppression(most, iou, least, sigma, iou_inclusive=True)
    together = (c.reshape(boxes, (1, count, 4)), c.reshape(scores, (1, 1, count)))
    indices, best, counts = c.add_many(op, *together)
    chosen = c.add(ew.Max(), c.reshape(indices, (most,)), c.scalar(0, DType.INT32))
    return [chosen, c.reshape(best, (most,)), c.reshape(counts, ())]


@operator("NON_MAX_SUPPRESSION_V4", inputs=5, outputs=2)
def non_max_suppression(c: Context) -> list[Value]:
    """Non-maximum suppression: the best boxes that do not overlap a better one."""
    chosen, _, count = _suppressed(c, 0.0)
    return [chosen, count]


@operator("NON_MAX_SUPPRESSION_V5", inputs=6, outputs=3)
def soft_non_max_suppression(c: Context) -> list[Value]:
    """Non-maximum suppression; soft (Bodla et al. 2017) where sigma is above 0."""
    sigma = _number(c, 5, "a sigma")
    c.require(sigma >= 0, f"has a sigma of {sigma}")
    return _suppressed(c, sigma)


@operator("TFLite_Detection_PostProcess", inputs=3, outputs=4, takes_quantized=True, custom=True)
def detection_post_process(c: Context) -> list[Value]:
    """Post-processing of SSD detectors: boxes decoded from anchors, then non-maximum suppression.

    Boxes are suppressed by the best class of each or, with use_regular_nms, class by class.
    Outputs: boxes, classes and scores, padded with zeros, and their number.
    """
    options = PostProcessOptions.of(c)
    boxes = decoded_boxes(c, options)
    scores = dequantized(c, 1)
    first = scores.type.dims[2] - options.classes
    found = Detections(c, options, boxes, scores, first)
    return found.by_class() if options.regular else found.by_box()
