"""ImageProposals: region proposals of several images, as OpenVINO's Proposal and SimplerNMS."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, fits, require, require_dtype
from vknn.ops.detection.heap import heap_order
from vknn.ops.detection.yolo import suppress


@attributes
class ImageProposals(Op):
    """Anchors moved by deltas, clipped, suppressed, for each of N images: regions with an object.

    Inputs: scores [N, 2 * A, h, w], of which the last A count; deltas [N, 4 * A, h, w], x, y, w, h
    of each of A anchors; info [3] or [4], finite: height, width, scale of the image (of its height
    and of its width).

    Anchor a (x1, y1, x2, y2) lies at each place of the map, ``stride`` apart. ``swapped``: x runs
    along the rows of the map and of the image. ``clip_anchors``: to 0 and the image's size. Sides
    are x2 - x1 + ``extra``, and the centre is x1 + side / 2. It moves by the side times the delta /
    ``coordinate_scale``, the side is multiplied by exp(delta / ``size_scale``). ``clip_before``:
    boxes are clipped to 0 and the image's size less ``extra``.

    Boxes with a side below ``min_size`` times the scale get the score 0. With ``drop_small`` they
    are left out, as are scores that are not above 0; the side is then cut to a whole number before
    1 is added, the scale cut too, and the image's size.

    The best ``pre_nms_top_n`` are looked at, best first; they are numbered by row, column and
    anchor, and equal ones come in the order of a heap (``heap_order``), with ``drop_small`` the
    last first. A box goes when its intersection over union with one that stays exceeds
    ``nms_threshold``. The first ``post_nms_top_n`` of each image stay.
    ``clip_after``: these are clipped to the image's size; ``normalize``: divided by it.

    Outputs: boxes [N * post_nms_top_n, 5], the image's number, x1, y1, x2, y2; of the rows of an
    image that are left the first begins with -1 (not with ``drop_small``), the rest is 0. Scores
    [N * post_nms_top_n], then 0.
    """

    anchors: tuple[tuple[float, float, float, float], ...]
    stride: float
    pre_nms_top_n: int
    post_nms_top_n: int
    nms_threshold: float
    min_size: float
    extra: float = 1.0
    coordinate_scale: float = 1.0
    size_scale: float = 1.0
    swapped: bool = False
    clip_anchors: bool = False
    clip_before: bool = True
    clip_after: bool = False
    normalize: bool = False
    drop_small: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        scores, deltas, info = arguments(self, inputs, 3)
        require_dtype(self, DType.FLOAT32, scores, deltas, info)
        count = len(self.anchors)
        good = count >= 1 and all(len(a) == 4 for a in self.anchors)
        require(good, "ImageProposals: no anchors")
        good = min(self.pre_nms_top_n, self.post_nms_top_n) >= 0
        require(good, f"ImageProposals: top_n {self.pre_nms_top_n}, {self.post_nms_top_n} below 0")
        for type_, channels in ((scores, 2 * count), (deltas, 4 * count)):
            good = type_.rank == 4 and fits(type_.shape[1], channels)
            require(good, f"ImageProposals: {type_} should be [N, {channels}, h, w]")
        same = all(fits(scores.shape[i], deltas.shape[i]) for i in (0, 2, 3))
        require(same, f"ImageProposals: {scores} and {deltas} do not suit each other")
        good = info.rank == 1 and (info.shape[0] is None or info.shape[0] in (3, 4))
        require(good, f"ImageProposals: the image's info {info} should be [3] or [4]")
        images = scores.shape[0]
        rows = None if images is None else images * self.post_nms_top_n
        return TensorType((rows, 5)), TensorType((rows,))

    def looked_at(self, scores: TensorType) -> int:
        """Number of boxes of an image that suppression looks at, at the most."""
        boxes = len(self.anchors) * scores.dims[2] * scores.dims[3]
        return min(self.pre_nms_top_n, boxes)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        scores, deltas, info = arguments(self, inputs, 3)
        info = info.astype(np.float32)
        info = np.trunc(info) if self.drop_small else info
        size = info[:2] if self.swapped else info[1::-1]  # along x, along y
        count, most = len(self.anchors), self.post_nms_top_n
        rows = np.zeros((len(scores), most, 5), np.float32)
        found = np.zeros((len(scores), most), np.float32)
        with np.errstate(all="ignore"):
            for image, own in enumerate(deltas):
                boxes = self._decoded(own, size)
                values = scores[image, count:].transpose(1, 2, 0).reshape(-1)
                order, values = self._order(boxes, values, info)
                order = order[: self.looked_at(TensorType.of(scores))]
                picked = suppress(
                    boxes[order], self.nms_threshold, self.extra, self.drop_small, most
                )
                kept = order[picked]
                rows[image, : len(kept), 0] = image
                rows[image, : len(kept), 1:] = self._shown(boxes[kept], size)
                found[image, : len(kept)] = values[kept]
                if len(kept) < most and not self.drop_small:
                    rows[image, len(kept), 0] = -1
        return rows.reshape(-1, 5), found.reshape(-1)

    def _order(
        self, boxes: np.ndarray, values: np.ndarray, info: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the boxes there are, best first, and the scores of all."""
        sides = boxes[:, 2:] - boxes[:, :2]
        sides = np.trunc(sides) + np.float32(1) if self.drop_small else sides + self._extra
        least = np.float32(self.min_size) * np.stack([info[-1], info[2]])  # of x, of y
        large = (sides >= least).all(axis=1)
        if not self.drop_small:
            values = np.where(large, values, np.float32(0))
            return heap_order(values, self.pre_nms_top_n), values
        last = len(values) - 1
        order = last - np.argsort(-values[::-1], kind="stable")
        return order[(large & (values > 0))[order]], values

    @property
    def _extra(self) -> np.float32:
        return np.float32(self.extra)

    def _decoded(self, deltas: np.ndarray, size: np.ndarray) -> np.ndarray:
        """[h * w * A, 4] in float32, some rows of the map at a time."""
        height, width = deltas.shape[1:]
        parts = deltas.reshape(-1, 4, height, width).transpose(2, 3, 0, 1)
        boxes = np.empty(parts.shape, np.float32)
        for rows in blocks(height, 4 * parts[0].nbytes):
            boxes[rows] = self._moved(parts[rows], rows.start, size)
        return boxes.reshape(-1, 4)

    def _moved(self, parts: np.ndarray, first: int, size: np.ndarray) -> np.ndarray:
        """Anchors moved by [rows, w, A, 4] deltas of the map's rows from ``first`` on."""
        height, width = parts.shape[:2]
        across, down = np.meshgrid(np.arange(width), np.arange(first, first + height))
        cells = np.stack([down, across] if self.swapped else [across, down], axis=-1)
        places = cells[:, :, None].astype(np.float32) * np.float32(self.stride)
        anchors, limits = np.asarray(self.anchors, np.float32), np.tile(size, 2)
        corners = np.concatenate([places, places], axis=-1) + anchors
        zero, half = np.float32(0), np.float32(0.5)
        if self.clip_anchors:
            np.clip(corners, zero, limits, out=corners)
        sides = corners[..., 2:] - corners[..., :2] + self._extra
        centres = corners[..., :2] + half * sides
        centres += parts[..., :2] / np.float32(self.coordinate_scale) * sides
        sides *= np.exp(parts[..., 2:] / np.float32(self.size_scale))
        sides *= half
        boxes = corners
        np.subtract(centres, sides, out=boxes[..., :2])
        np.add(centres, sides, out=boxes[..., 2:])
        if self.clip_before:
            np.minimum(boxes, limits - self._extra, out=boxes)
            np.maximum(zero, boxes, out=boxes)
        return boxes

    def _shown(self, boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
        limits = np.tile(size, 2)
        if self.clip_after:
            boxes = np.maximum(np.float32(0), np.minimum(boxes, limits))
        return boxes / limits if self.normalize else boxes
