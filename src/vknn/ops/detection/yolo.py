"""YoloDetection, and greedy suppression of overlapping boxes."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype
from vknn.ops.elementwise.activation import sigmoid


@attributes
class YoloDetection(Op):
    """Decoding of YOLO feature maps and suppresses overlapping boxes, as ncnn's layers do.

    Inputs: map b is [1, num_box * (5 + num_class), h, w]; of each box the channels are x, y, w, h,
    objectness and the class scores. Box k of map b has anchor ``mask[b * num_box + k]``, whose
    width and height are ``biases[2 * anchor]`` and the next; it is a fraction of a net of
    ``int(anchors_scale[b] * (w, h))``.

    The centre is ((column, row) + sigmoid(xy)) / (w, h), the size exp(wh) * anchor / net. The
    confidence is 1 / (1 + exp(-objectness) * (1 + exp(-best class score))), with ``softmax``
    (YOLOv2) sigmoid(objectness) times the best of softmax(class scores); boxes of at least
    ``confidence_threshold`` are kept. In order of falling confidence (equal ones in order of map,
    box, row, column) a box goes when its intersection over union with one that stays, of whatever
    class, exceeds ``nms_threshold``.

    Output [1, n, 6], n depends on data: class + 1, confidence, x1, y1, x2, y2 (fractions of the
    image).
    """

    num_class: int
    num_box: int
    confidence_threshold: float
    nms_threshold: float
    biases: tuple[float, ...]
    mask: tuple[int, ...]
    anchors_scale: tuple[float, ...]
    softmax: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        self._check(arguments(self, inputs, len(inputs)))
        return (TensorType((1, None, 6)),)

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        maps = arguments(self, inputs, len(inputs))
        self._check(maps)
        boxes = sum(self.num_box * m.dims[2] * m.dims[3] for m in maps)
        return (TensorType((1, boxes, 6)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        maps = arguments(self, inputs, len(inputs))
        with np.errstate(all="ignore"):
            rows = np.concatenate([self._decode(b, x) for b, x in enumerate(maps)])
            rows = rows[rows[:, 1] >= np.float32(self.confidence_threshold)]
            rows = rows[np.argsort(-rows[:, 1], kind="stable")]
            kept = suppress(rows[:, 2:], self.nms_threshold)
        return (rows[kept][None],)

    def _check(self, maps: tuple[TensorType, ...]) -> None:
        require(self.num_box >= 1 and self.num_class >= 1, f"YoloDetection: no boxes: {self}")
        require(len(maps) >= 1, "YoloDetection: no feature maps")
        count = len(maps)
        require(
            len(self.mask) >= count * self.num_box and len(self.anchors_scale) >= count,
            f"YoloDetection: {count} maps of {self.num_box} boxes need more masks or scales than "
            f"{len(self.mask)} and {len(self.anchors_scale)}",
        )
        strides = self.anchors_scale[:count]  # nets of more pixels than 32 bits count are none
        good = all(abs(scale) < 1 << 20 for scale in strides)
        require(good, f"YoloDetection: scales {strides} of anchors are not below {1 << 20}")
        used = self.mask[: count * self.num_box]
        if min(used) < 0 or 2 * max(used) + 1 >= len(self.biases):
            raise ShapeError(f"YoloDetection: mask {used} exceeds {len(self.biases)} biases")
        require_dtype(self, DType.FLOAT32, *maps)
        channels = self.num_box * (5 + self.num_class)
        for map_ in maps:
            if map_.rank != 4 or not fits(map_.shape[0], 1) or not fits(map_.shape[1], channels):
                raise ShapeError(f"YoloDetection: {map_} should be [1, {channels}, h, w]")

    def _decode(self, number: int, x: np.ndarray) -> np.ndarray:
        """Rows [class + 1, confidence, x1, y1, x2, y2] of all boxes of a map, in float32."""
        height, width = x.shape[2:]
        boxes = x.reshape(self.num_box, 5 + self.num_class, height, width)
        anchors = np.asarray(self.biases, np.float32).reshape(-1)
        picked = np.asarray(self.mask[number * self.num_box :][: self.num_box], np.intp)
        scale = np.float32(self.anchors_scale[number])
        size = [anchors[2 * picked + i].reshape(-1, 1, 1) for i in (0, 1)]
        net = [np.float32(int(scale * np.float32(s))) for s in (width, height)]
        column, row = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)

        centre_x = (column + sigmoid(boxes[:, 0])) / np.float32(width)
        centre_y = (row[:, None] + sigmoid(boxes[:, 1])) / np.float32(height)
        half_x = np.exp(boxes[:, 2]) * size[0] / net[0] * np.float32(0.5)
        half_y = np.exp(boxes[:, 3]) * size[1] / net[1] * np.float32(0.5)
        scores = boxes[:, 5:]
        best = scores.max(axis=1)
        confidence = self._confidence(boxes[:, 4], scores, best)
        label = scores.argmax(axis=1) + 1.0
        corners = (centre_x - half_x, centre_y - half_y, centre_x + half_x, centre_y + half_y)
        return np.stack((label, confidence, *corners), axis=-1, dtype=np.float32).reshape(-1, 6)

    def _confidence(
        self, objectness: np.ndarray, scores: np.ndarray, best: np.ndarray
    ) -> np.ndarray:
        """Scores in float64: rounded once, few come out equal that are not."""
        away = np.exp(-objectness.astype(np.float64))
        if self.softmax:
            total = np.exp(scores - best[:, None], dtype=np.float64).sum(axis=1)
            return 1.0 / (1.0 + away) / total
        return 1.0 / (1.0 + away * (1.0 + np.exp(-best, dtype=np.float64)))


def suppress(
    boxes: np.ndarray,
    threshold: float,
    extra: float = 0.0,
    products: bool = False,
    limit: int | None = None,
) -> np.ndarray:
    """Indices of the boxes [n, 4] (x1, y1, x2, y2; best first) that greedy suppression keeps.

    A box goes when its intersection over union with one kept before exceeds ``threshold``.
    ``extra`` is added to all sides, those of intersections too where the boxes touch, or with
    ``products`` always; then intersections are compared with the threshold times the union. At most
    ``limit`` are kept.
    """
    low, high = boxes[:, :2], boxes[:, 2:]
    more, zero, most = np.float32(extra), np.float32(0.0), np.float32(threshold)
    areas = np.prod(high - low + more, axis=1)
    alive = np.ones(len(boxes), bool)
    kept: list[int] = []
    for index in range(len(boxes)):
        if not alive[index]:
            continue
        if limit is not None and len(kept) >= limit:
            break
        run_limits.check()
        kept.append(index)
        sides = np.minimum(high, high[index]) - np.maximum(low, low[index])
        apart = (sides + more if products else sides) < 0
        shared = np.where(apart.any(axis=1), zero, np.prod(sides + more, axis=1))
        union = areas + areas[index] - shared
        over = shared > most * union if products else shared / union > most
        alive &= ~over
    return np.asarray(kept, np.intp)
