"""Proposal: region proposals of a region proposal network."""

from __future__ import annotations

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype
from vknn.ops.detection.yolo import suppress


@attributes
class Proposal(Op):
    """Anchors moved by deltas, clipped, suppressed: regions that may hold an object.

    Inputs: scores [1, 2 * A, h, w], of which the last A count; deltas [1, 4 * A, h, w], x, y, w, h
    of each of A anchors; info [1, 3]: height, width and scale of the image.

    Anchor a (x1, y1, x2, y2) lies at each place of the map, ``stride`` apart. Its centre moves by
    its size times xy, its size is multiplied by exp(wh), and its corners are clipped to 0 and the
    image's size less 1. Boxes that are then (x2 - x1 + 1) narrower or lower than ``min_size`` times
    the scale are dropped. Of the rest the best ``pre_nms_top_n`` (0: all) are looked at, best first
    (equal ones in order of anchor, row, column): a box goes when its intersection over union with
    one that stays exceeds ``nms_threshold``. The first ``post_nms_top_n`` of those stay.

    Outputs, n depends on data: boxes [1, n, 1, 4], scores [1, n, 1, 1].
    """

    anchors: tuple[tuple[float, float, float, float], ...]
    stride: float
    pre_nms_top_n: int
    post_nms_top_n: int
    nms_threshold: float
    min_size: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        self._check(*arguments(self, inputs, 3))
        return TensorType((1, None, 1, 4)), TensorType((1, None, 1, 1))

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        scores, deltas, info = arguments(self, inputs, 3)
        self._check(scores, deltas, info)
        count = min(self.post_nms_top_n, self.looked_at(scores))
        return TensorType((1, count, 1, 4)), TensorType((1, count, 1, 1))

    def looked_at(self, scores: TensorType) -> int:
        """Number of boxes that suppression looks at, at the most."""
        boxes = len(self.anchors) * scores.dims[2] * scores.dims[3]
        return min(self.pre_nms_top_n or boxes, boxes)

    def _check(self, scores: TensorType, deltas: TensorType, info: TensorType) -> None:
        require_dtype(self, DType.FLOAT32, scores, deltas, info)
        count = len(self.anchors)
        require(count >= 1 and all(len(a) == 4 for a in self.anchors), "Proposal: no anchors")
        good = min(self.pre_nms_top_n, self.post_nms_top_n) >= 0
        require(good, f"Proposal: top_n {self.pre_nms_top_n}, {self.post_nms_top_n} below 0")
        for type_, channels in ((scores, 2 * count), (deltas, 4 * count)):
            if type_.rank != 4 or not fits(type_.shape[0], 1) or not fits(type_.shape[1], channels):
                raise ShapeError(f"Proposal: {type_} should be [1, {channels}, h, w]")
        maps = scores.shape[2:] == deltas.shape[2:]
        require(maps, f"Proposal: {scores} and {deltas} should be of one size")
        good = info.rank == 2 and fits(info.shape[0], 1) and fits(info.shape[1], 3)
        require(good, f"Proposal: the image's info {info} should be [1, 3]")

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        scores, deltas, info = arguments(self, inputs, 3)
        limits = info.reshape(3).astype(np.float32)
        with np.errstate(all="ignore"):
            boxes = self._decoded(deltas[0], limits)
            sizes = boxes[:, 2:] - boxes[:, :2] + np.float32(1)
            values = scores[0, len(self.anchors) :].reshape(-1)
            least = np.float32(self.min_size) * limits[2]
            present = (sizes >= least).all(axis=1) & (values > np.finfo(np.float32).min)
            order = np.argsort(-values[present], kind="stable")
            order = np.flatnonzero(present)[order][: self.looked_at(TensorType.of(scores))]
            kept = order[suppress(boxes[order], self.nms_threshold)][: self.post_nms_top_n]
        return boxes[kept].reshape(1, -1, 1, 4), values[kept].reshape(1, -1, 1, 1)

    def _decoded(self, deltas: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """[A * h * w, 4] in float32, clipped."""
        height, width = deltas.shape[1:]
        parts = deltas.reshape(-1, 4, height, width)
        anchors = np.asarray(self.anchors, np.float32)[:, :, None, None]
        sizes = anchors[:, 2:] - anchors[:, :2]
        step = np.float32(self.stride)
        across, down = np.meshgrid(np.arange(width) * step, np.arange(height) * step)
        places = np.stack([across, down]).astype(np.float32)
        half = np.float32(0.5)
        centres = anchors[:, :2] + places + sizes * half + sizes * parts[:, :2]
        reach = sizes * np.exp(parts[:, 2:]) * half
        last = limits[1::-1, None, None] - np.float32(1)
        ends = (centres - reach, centres + reach)
        corners = [np.maximum(np.minimum(v, last), np.float32(0)) for v in ends]
        return np.concatenate(corners, axis=1).transpose(0, 2, 3, 1).reshape(-1, 4)
