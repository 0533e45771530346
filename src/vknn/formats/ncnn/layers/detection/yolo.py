"""YoloDetectionOutput and Yolov3DetectionOutput."""

from __future__ import annotations

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.detection.yolo import YoloDetection


@attributes
class YoloParams(Params):
    """Parameters of YoloDetectionOutput."""

    num_class: int = param(0, 20)
    num_box: int = param(1, 5)
    confidence_threshold: float = param(2, 0.01)
    nms_threshold: float = param(3, 0.45)
    biases: tuple[float, ...] = param(4, ())

    def check(self) -> None:
        require(self.num_class > 0 and self.num_box > 0, "num_class and num_box must be positive")


@attributes
class Yolov3Params(YoloParams):
    """Parameters of Yolov3DetectionOutput, whose mask is stored as floats."""

    mask: tuple[float, ...] = param(5, ())
    anchors_scale: tuple[float, ...] = param(6, ())

    def check(self) -> None:
        super().check()
        pairs = len(self.biases) // 2
        good = all(0 <= m < pairs for m in self.mask)
        require(good, f"the mask {self.mask} speaks of more than {pairs} anchors")


@layer("YoloDetectionOutput", params=YoloParams, inputs=(1, None))
def yolo_detection_output(c: Context[YoloParams]) -> Value:
    """Detections of YOLOv2 as rows (label + 1, score, x1, y1, x2, y2).

    ncnn differs: where nothing is detected its output is the first input; here there are no rows.
    """
    p, maps = c.params, len(c.inputs)
    c.require(len(p.biases) >= 2 * p.num_box, f"{len(p.biases)} biases for {p.num_box} boxes")
    _check_maps(c)
    op = YoloDetection(
        num_class=p.num_class,
        num_box=p.num_box,
        confidence_threshold=p.confidence_threshold,
        nms_threshold=p.nms_threshold,
        biases=p.biases,
        mask=tuple(range(p.num_box)) * maps,
        anchors_scale=(1.0,) * maps,
        softmax=True,
    )
    return c.add(op, *c.inputs)


@layer("Yolov3DetectionOutput", params=Yolov3Params, inputs=(1, None))
def yolov3_detection_output(c: Context[Yolov3Params]) -> Value:
    """Detections of YOLOv3 as rows (label + 1, score, x1, y1, x2, y2)."""
    p, maps = c.params, len(c.inputs)
    c.require(len(p.mask) >= maps * p.num_box, f"{len(p.mask)} anchors for {maps} inputs")
    c.require(len(p.anchors_scale) >= maps, f"{len(p.anchors_scale)} scales for {maps} inputs")
    _check_maps(c)
    op = YoloDetection(
        num_class=p.num_class,
        num_box=p.num_box,
        confidence_threshold=p.confidence_threshold,
        nms_threshold=p.nms_threshold,
        biases=p.biases,
        mask=tuple(int(m) for m in p.mask),
        anchors_scale=p.anchors_scale,
    )
    return c.add(op, *c.inputs)


def _check_maps(c: Context[P]) -> None:
    p = c.params
    assert isinstance(p, YoloParams)
    channels = p.num_box * (5 + p.num_class)
    for x in c.inputs:
        good = rank(x) == 3 and shape(x)[0] == channels
        c.require(good, f"takes ({channels}, h, w) blobs, not {list(shape(x))}")
