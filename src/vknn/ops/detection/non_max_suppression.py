"""NonMaxSuppression: of boxes that overlap, the one with the best score stays."""

from __future__ import annotations

import math

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype


@attributes
class NonMaxSuppression(Op):
    """Boxes of each class that stay, best first, at most ``max_output`` of them.

    Inputs boxes [b, n, 4] (two opposite corners each) and scores [b, c, n]. Boxes with a score
    above ``score_threshold`` (``score_inclusive``: or equal) are candidates. The best of them,
    of equal ones the first, stays; others go whose intersection over union with it exceeds
    ``iou_threshold`` (``iou_inclusive``: or equals it); and so on. With ``soft_sigma`` above 0 the
    score of each other candidate is multiplied by exp(-iou^2 / (2 soft_sigma)) first, and has to
    stay above the threshold. A box without an area overlaps nothing.

    Outputs: their indices, int32 [b, c, max_output], then -1; their scores, of the same shape, then
    0; how many they are, int32 [b, c].
    """

    max_output: int
    iou_threshold: float
    score_threshold: float = -math.inf
    soft_sigma: float = 0.0
    iou_inclusive: bool = False
    score_inclusive: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        boxes, scores = arguments(self, inputs, 2)
        require_dtype(self, DType.FLOAT32, boxes, scores)
        good = boxes.rank == scores.rank == 3 and fits(boxes.shape[2], 4)
        good = good and fits(boxes.shape[0], scores.shape[0])
        good = good and fits(boxes.shape[1], scores.shape[2])
        require(
            good, f"NonMaxSuppression: boxes {boxes} and scores {scores} do not suit each other"
        )
        sane = self.max_output >= 0 and self.soft_sigma >= 0
        require(sane, f"NonMaxSuppression: {self}")
        lead = scores.shape[:2]
        found = (*lead, self.max_output)
        return TensorType(found, DType.INT32), TensorType(found), TensorType(lead, DType.INT32)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        boxes, scores = arguments(self, inputs, 2)
        lead = scores.shape[:2]
        indices = np.full((*lead, self.max_output), -1, np.int32)
        kept = np.zeros((*lead, self.max_output), np.float32)
        counts = np.zeros(lead, np.int32)
        with np.errstate(all="ignore"):
            for batch, label in np.ndindex(*lead):
                which, best = self._select(boxes[batch], scores[batch, label])
                indices[batch, label, : len(which)], kept[batch, label, : len(best)] = which, best
                counts[batch, label] = len(which)
        return indices, kept, counts

    def _select(self, boxes: np.ndarray, scores: np.ndarray) -> tuple[list[int], list[float]]:
        left = scores.astype(np.float32)
        alive = self._above(left)
        which: list[int] = []
        best: list[float] = []
        while len(which) < self.max_output and alive.any():
            run_limits.check()
            index = int(np.argmax(np.where(alive, left, -np.inf)))
            which.append(index)
            best.append(float(left[index]))
            alive[index] = False
            iou = overlaps(boxes, boxes[index])
            limit = np.float32(self.iou_threshold)
            alive &= ~((iou >= limit) if self.iou_inclusive else (iou > limit))
            if self.soft_sigma > 0:
                scale = np.float32(-0.5) / np.float32(self.soft_sigma)
                left = left * np.exp(scale * iou * iou)
                alive &= self._above(left)
        return which, best

    def _above(self, scores: np.ndarray) -> np.ndarray:
        limit = np.float32(self.score_threshold)
        return scores >= limit if self.score_inclusive else scores > limit


def overlaps(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes [n, 4] (two corners) with one, in float32."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    own_low, own_high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    area, own = np.prod(high - low, axis=1), np.prod(own_high - own_low)
    sides = np.maximum(np.minimum(high, own_high) - np.maximum(low, own_low), np.float32(0))
    shared = np.prod(sides, axis=1)
    union = area + own - shared
    real = (area > 0) & (own > 0) & (union != 0)
    return np.where(real, shared / np.where(real, union, 1), np.float32(0)).astype(np.float32)
