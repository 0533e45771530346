"""Non-maximum suppression of boxes, in NumPy."""

from __future__ import annotations

import numpy as np


def overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of a box [4] with boxes [n, 4], all left, top, right, bottom.

    Boxes without an area overlap nothing.
    """
    inner = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    common = inner.clip(0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(axis=1) + (box[2:] - box[:2]).clip(0).prod()
    union = areas - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def suppressed(
    boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, iou: float, most: int
) -> np.ndarray:
    """Indices of the boxes that stay, at most ``most``, those with the best scores first.

    Of boxes of a class that overlap by more than ``iou`` the one with the best score stays; of
    equal scores the first. ``boxes`` [n, 4]: left, top, right, bottom; ``scores``, ``classes`` [n].
    """
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while left.size and len(kept) < most:
        first, left = left[0], left[1:]
        kept.append(int(first))
        apart = overlaps(boxes[first], boxes[left]) <= iou
        left = left[apart | (classes[left] != classes[first])]
    return np.array(kept, np.int64)
