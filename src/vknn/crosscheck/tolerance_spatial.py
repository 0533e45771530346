"""Tolerances of sampling, regions, columns, detection: magnitude and units (see tolerance)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.detection.image_detections import ImageDetections
from vknn.ops.detection.image_proposals import ImageProposals
from vknn.ops.detection.proposal import Proposal
from vknn.ops.detection.ssd import DetectionOutput, PriorBox
from vknn.ops.detection.yolo import YoloDetection
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.ops.sampling.grid_sample import GridSample

Arrays = Sequence[np.ndarray | None]
Rule = Callable[[Any, Arrays, np.ndarray], tuple[np.ndarray, float]]


def _exact(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 0.0


def _grid_sample(op: GridSample, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    if op.mode == "nearest":
        return _exact(op, inputs, y)
    return _places(op, inputs, y)


def _places(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """A place near the far end rounds to as many units as the axis is long."""
    x = inputs[0]
    assert x is not None
    return _largest(x, y), 32.0 + 8.0 * max(x.shape[2:])


def _means(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = inputs[0]
    assert x is not None
    return _largest(x, y), 32.0 + 4.0 * math.sqrt(math.prod(x.shape[2:]))


def _largest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    size = np.abs(x.astype(np.float64))
    return np.full(y.shape, size[np.isfinite(size)].max(initial=0.0))


def _columns(op: Col2Im, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = inputs[0]
    assert x is not None
    (size,) = op.reference(np.abs(x))
    return np.abs(size.astype(np.float64)), 32.0 + 4.0 * math.sqrt(math.prod(op.kernel))


def _priors(op: PriorBox, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.full(y.shape, max(1.0, float(np.abs(y).max(initial=0.0)))), 16.0


def _detection(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.maximum(np.abs(y), 1.0), 64.0


#: By op class.
RULES: dict[type[Op], Rule] = {
    GridSample: _grid_sample,
    RoiAlign: _places,
    BilinearRoiPool: _places,
    DeformableRoiPool: _places,
    MaxRoiPool: _exact,
    PositionSensitiveRoiPool: _means,
    Im2Col: _exact,
    Col2Im: _columns,
    PriorBox: _priors,
    YoloDetection: _detection,
    DetectionOutput: _detection,
    Proposal: _detection,
    ImageDetections: _detection,
    ImageProposals: _detection,
}
