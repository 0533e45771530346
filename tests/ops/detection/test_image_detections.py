"""Detections of several images: the device against NumPy, the reference against loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.detections import detections
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.detection.image_detections import ImageDetections

Array = np.ndarray


def scene(op: ImageDetections, images: int, boxes: int, **kinds: bool) -> list[Array]:
    """Locations, confidences, priors, and what moves these with ``refined``."""
    rng = np.random.default_rng(boxes)
    location = rng.standard_normal((images, 4 * boxes * op.lists))
    # Scores far enough apart that no rounding decides their order.
    scores = rng.permutation(np.linspace(0, 1, images * boxes * op.num_class))
    many = images if kinds.get("own_priors") else 1
    low = rng.uniform(-0.1, 0.7, (many, boxes, 2))
    corners = np.concatenate([low, low + rng.uniform(0.05, 0.4, low.shape)], axis=2)
    scale = 1.0 if op.encoded else 4.0
    parts = [corners.reshape(many, 1, -1)]
    if not op.encoded:
        spread = rng.uniform(0.05, 0.25, (many, 1, 4 * boxes))
        parts.append(spread)
    found = [location * scale / 8, scores.reshape(images, -1), np.concatenate(parts, axis=1)]
    if kinds.get("refined"):
        found.append(rng.standard_normal((images, 4 * boxes)) / 4)
    return [a.astype(np.float32) for a in found]


def detector(classes: int = 4, rows: int = 40, **changes: Any) -> ImageDetections:
    settings = {"nms_threshold": 0.4, "confidence_threshold": 0.3, "top_k": 30, "keep_top_k": 12}
    return ImageDetections(classes, rows, **{**settings, **changes})


def naive(op: ImageDetections, x: list[Array]) -> Array:
    found = detections(
        *x[:3],
        classes=op.num_class,
        nms=op.nms_threshold,
        confidence=op.confidence_threshold,
        top_k=op.top_k,
        keep_top_k=op.keep_top_k,
        background=op.background,
        corners=op.corners,
        encoded=op.encoded,
        shared=not op.own_boxes,
        mxnet=op.best_class,
        clip_before=op.clip_before,
        clip_after=op.clip_after,
        arm=x[3] if len(x) > 3 else None,
        arm_size=op.refined_size,
    )
    return listed(found, op.rows)


def listed(found: list[tuple[float, ...]], rows: int) -> Array:
    """Rows in the form of a result."""
    y = np.zeros((rows, 7))
    y[: len(found)] = np.reshape(found[:rows], (-1, 7))
    if len(found) < rows:
        y[len(found), 0] = -1
    return y[None, None]


CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "corners": {"corners": True},
    "encoded": {"encoded": True},
    "encoded corners": {"encoded": True, "corners": True, "clip_after": True},
    "a list each": {"own_boxes": True},
    "clipped before": {"clip_before": True, "nms_threshold": 0.2},
    "clipped after": {"clip_after": True},
    "no background": {"background": -1},
    "another background": {"background": 2, "own_boxes": True},
    "few of a class": {"top_k": 3, "keep_top_k": -1},
    "all": {"top_k": -1, "keep_top_k": -1, "nms_threshold": 0.9, "rows": 200},
    "rows too few": {"keep_top_k": -1, "rows": 7},
    "best class": {"best_class": True},
    "best class, few": {"best_class": True, "top_k": 9, "keep_top_k": 5, "clip_after": True},
    "best class, a list each": {"best_class": True, "own_boxes": True, "keep_top_k": -1},
    "priors divided": {"refined_size": (3, 2), "nms_threshold": 0.2},
    "priors divided, clipped": {"refined_size": (2, 3), "corners": True, "clip_before": True},
    "nothing": {"confidence_threshold": 2.0},
    "nothing of the best": {"confidence_threshold": 2.0, "best_class": True},
}


@pytest.mark.parametrize("name", CHANGES)
def test_detections(name: str) -> None:
    op = detector(**CHANGES[name])
    for images, boxes, kinds in (
        (1, 13, {}),
        (2, 37, {"refined": True}),
        (3, 9, {"own_priors": 1}),
    ):
        x = scene(op, images, boxes, **kinds)
        (y,) = op.reference(*x)
        np.testing.assert_allclose(y, naive(op, x), rtol=1e-5, atol=1e-5)
        access = ("texel",) if images == 1 else ("storage",)
        check_op(op, *x, access=access)


def test_equal_scores() -> None:
    for changes in ({}, {"best_class": True}):
        op = detector(5, nms_threshold=0.6, keep_top_k=7, **changes)
        x = scene(op, 2, 21)
        x[1] = (np.round(x[1] * 4) / 4).astype(np.float32)
        (y,) = op.reference(*x)
        np.testing.assert_allclose(y, naive(op, x), rtol=1e-5, atol=1e-5)
        check_op(op, *x, access=("image",))


def test_as_on_other_devices() -> None:
    op = detector(6)
    x = scene(op, 2, 70)
    check_op(op, *x, access=("storage",), kind="discrete")
    check_op(op, *x, access=("storage",), max_loop_rounds=100)
    check_op(op, *x, host=True, max_loop_rounds=14)
    x[1] = (np.round(x[1] * 512) / 512).astype(np.float32)
    check_op(detector(6, nms_threshold=2.0), *x, precision="fp16", tolerance=1e-3)


@pytest.mark.host
def test_wrong_shapes() -> None:
    op = detector(3)
    good = ((2, 40), (2, 30), (1, 2, 40))
    assert op.infer(*map(TensorType, good)) == (TensorType((1, 1, 40, 7)),)
    for number, shape in (
        (0, (2, 36)),
        (1, (1, 30)),
        (2, (1, 1, 40)),
        (2, (3, 2, 40)),
        (2, (1, 2, 42)),
    ):
        types = [TensorType(shape if i == number else s) for i, s in enumerate(good)]
        with pytest.raises(ShapeError):
            op.infer(*types)
    with pytest.raises(ShapeError):
        op.infer(*map(TensorType, good), TensorType((2, 36)))
    with pytest.raises(ShapeError):
        detector(3, top_k=-2).infer(*map(TensorType, good))
    assert math.isfinite(ImageDetections(3, 4, 0.5).confidence_threshold)
