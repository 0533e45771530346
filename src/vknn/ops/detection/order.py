"""Row order of results that hangs on comparisons of nearly equal numbers."""

from __future__ import annotations

import numpy as np

from vknn.graph import Op
from vknn.ops.detection.image_detections import ImageDetections
from vknn.ops.detection.ssd import DetectionOutput
from vknn.ops.detection.yolo import YoloDetection

#: Where in a row the confidence stands, for ops whose rows are sorted by it.
_CONFIDENCE: dict[type[Op], int] = {YoloDetection: 1, DetectionOutput: 1, ImageDetections: 2}
#: Confidences that are at most this far apart may change places.
_NEAR = 1e-5


def in_order_of(op: Op, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """``actual`` with its rows in the order of ``expected``, where ``op`` sorts them.

    Detections are sorted by confidence; rounding may swap two that are nearly equal. Rows only
    change places with rows of nearly the same confidence. Other ops: ``actual`` as it is.
    """
    column = _CONFIDENCE.get(type(op))
    if column is None or actual.shape != expected.shape:
        return actual
    wanted = expected.reshape(-1, expected.shape[-1])
    rows = actual.reshape(wanted.shape).copy()
    confidences = rows[:, column].astype(np.float64)
    for place in range(len(rows)):
        end = place + 1
        while end < len(rows) and abs(confidences[place] - confidences[end]) < _NEAR:
            end += 1
        if end - place > 1:
            distance = np.abs(rows[place:end] - wanted[place]).sum(axis=1)
            nearest = place + int(np.argmin(distance))
            rows[[place, nearest]] = rows[[nearest, place]]
    return rows.reshape(actual.shape)
