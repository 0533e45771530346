"""Yolov3DetectionOutput."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value
from vknn.ops.detection import YoloDetection


@dataclass(frozen=True)
class Yolov3Params(Params):
    """Parameters of Yolov3DetectionOutput. Its mask is kept as floats in files."""

    num_class: int = param(0, 20)
    num_box: int = param(1, 5)
    confidence_threshold: float = param(2, 0.01)
    nms_threshold: float = param(3, 0.45)
    biases: tuple[float, ...] = param(4, ())
    mask: tuple[float, ...] = param(5, ())
    anchors_scale: tuple[float, ...] = param(6, ())

    def check(self) -> None:
        require(self.num_class > 0 and self.num_box > 0, "num_class and num_box must be positive")
        pairs = len(self.biases) // 2
        good = all(0 <= m < pairs for m in self.mask)
        require(good, f"the mask {self.mask} speaks of more than {pairs} anchors")


@layer("Yolov3DetectionOutput", params=Yolov3Params, bottoms=(1, None))
def yolov3_detection_output(c: Context[Yolov3Params]) -> Value:
    """Rows (label + 1, score, x1, y1, x2, y2), as many as there are detections."""
    p, maps = c.params, len(c.inputs)
    c.require(len(p.mask) >= maps * p.num_box, f"{len(p.mask)} anchors for {maps} inputs")
    c.require(len(p.anchors_scale) >= maps, f"{len(p.anchors_scale)} scales for {maps} inputs")
    channels = p.num_box * (5 + p.num_class)
    for x in c.inputs:
        good = rank(x) == 3 and shape(x)[0] == channels
        c.require(good, f"takes ({channels}, h, w) blobs, not {list(shape(x))}")
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
