"""SSD on the device against NumPy, and the references against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.detection.ssd import DetectionOutput, PriorBox

RNG = np.random.default_rng(53)
SIZES = ((0.2, 0.3), (0.1, 0.1), (0.5, 0.25))


@pytest.mark.parametrize("variances", [None, (0.1, 0.2, 0.3, 0.4)], ids=["boxes", "variances"])
@pytest.mark.parametrize("clip", [False, True], ids=["open", "clipped"])
def test_priors(clip: bool, variances: tuple[float, float, float, float] | None) -> None:
    op = PriorBox((5, 3), SIZES, (0.2, 0.3), (0.1, 0.05), (1.0, 0.9), clip, variances)
    check_op(op)
    check_op(op, precision="fp16")


@pytest.mark.host
def test_priors_by_hand() -> None:
    op = PriorBox((1, 2), ((4.0, 2.0), (1.0, 6.0)), (10.0, 8.0), (5.0, 4.0), (10.0, 16.0))
    (y,) = op.reference()
    want = [
        *(2 / 16, 4 / 10, 6 / 16, 6 / 10, 3.5 / 16, 2 / 10, 4.5 / 16, 8 / 10),
        *(10 / 16, 4 / 10, 14 / 16, 6 / 10, 11.5 / 16, 2 / 10, 12.5 / 16, 8 / 10),
    ]
    np.testing.assert_allclose(y[0], want, rtol=1e-6)
    assert op.infer() == (TensorType((1, 16)),)


def scene(boxes: int, classes: int, spread: float = 1.0) -> list[np.ndarray]:
    """Locations, confidences (the class fastest), priors with variances."""
    location = RNG.standard_normal((1, 4 * boxes))
    # Scores far enough apart that no rounding decides their order.
    steps = RNG.permutation(np.linspace(0, 1, boxes * classes))
    low = RNG.uniform(0, 0.7, (boxes, 2))
    corners = np.hstack([low, low + RNG.uniform(0.05, 0.4, (boxes, 2))]).reshape(1, -1)
    variances = np.tile((0.1, 0.1, 0.2, 0.2), boxes)[None] * spread
    priors = np.hstack([corners, variances])
    return [a.astype(np.float32) for a in (location, steps[None], priors)]


def detector(classes: int, **changes: object) -> DetectionOutput:
    settings = {
        "nms_threshold": 0.4,
        "confidence_threshold": 0.3,
        "nms_top_k": 50,
        "keep_top_k": 30,
        **changes,
    }
    return DetectionOutput(classes, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("boxes", "classes"), [(1, 2), (7, 3), (61, 5), (130, 21)])
def test_detections(boxes: int, classes: int) -> None:
    x = scene(boxes, classes)
    check_op(detector(classes), *x)
    check_op(detector(classes, nms_top_k=9, keep_top_k=17), *x, access=("storage",))
    check_op(detector(classes, nms_top_k=9), *x, access=("storage",), kind="discrete")


@pytest.mark.parametrize("background", [-1, 0, 2, 3])
def test_any_class_may_be_the_background(background: int) -> None:
    op = detector(4, background=background)
    x = scene(23, 4)
    check_op(op, *x, access=("storage",))
    (y,) = op.reference(*x)
    assert set(y[0, :, 0]) == set(range(4)) - {background}


def test_other_forms() -> None:
    location, confidence, priors = scene(31, 4)
    op = detector(4, class_major=True, variances=(0.1, 0.2, 0.3, 0.1))
    check_op(op, location, confidence, priors[:, : 4 * 31], access=("texel",))


def test_nothing_found_and_everything_kept() -> None:
    x = scene(20, 3)
    check_op(detector(3, confidence_threshold=1.5), *x, access=("storage",))
    check_op(detector(3, confidence_threshold=-1.0, nms_threshold=2.0, keep_top_k=99), *x)


def test_a_box_whose_size_overflows() -> None:
    """Half of it does not."""
    location, scores, priors = scene(7, 3)
    priors[0, [9, 11]] = -1e38, 2e38
    location[0, 11] = 3.0
    scores[0, 6:9] = 2.0
    check_op(detector(3), location, scores, priors, access=("storage",))


def test_equal_scores_keep_the_order_of_class_and_box() -> None:
    location, confidence, priors = scene(9, 3)
    confidence[:] = np.repeat([[0.5, 0.6, 0.7]], 9, axis=1)
    check_op(detector(3, nms_threshold=2.0), location, confidence, priors, access=("storage",))


def test_in_fp16() -> None:
    location, confidence, priors = scene(12, 3)
    confidence = (np.round(confidence * 512) / 512).astype(np.float32)
    x = (location, confidence, np.round(priors * 256) / np.float32(256))
    check_op(detector(3, nms_threshold=2.0), *x, precision="fp16")


def test_more_than_the_loops_of_a_lane_take() -> None:
    x = scene(60, 3)
    check_op(detector(3), *x, access=("storage",), max_loop_rounds=25)
    check_op(detector(3), *x, host=True, max_loop_rounds=14)


def naive(op: DetectionOutput, x: list[np.ndarray]) -> list[tuple[float, ...]]:
    location, confidence, priors = (a.astype(np.float64).reshape(-1) for a in x)
    count = len(location) // 4
    boxes = []
    for i in range(count):
        x1, y1, x2, y2 = priors[4 * i : 4 * i + 4]
        v = priors[4 * count + 4 * i :][:4] if op.variances is None else op.variances
        a, b, c, d = location[4 * i : 4 * i + 4]
        w, h = x2 - x1, y2 - y1
        u, t = v[0] * a * w + (x1 + x2) / 2, v[1] * b * h + (y1 + y2) / 2
        w, h = math.exp(v[2] * c) * w / 2, math.exp(v[3] * d) * h / 2
        boxes.append((u - w, t - h, u + w, t + h))

    def overlap(p: tuple[float, ...], q: tuple[float, ...]) -> float:
        wide, high = min(p[2], q[2]) - max(p[0], q[0]), min(p[3], q[3]) - max(p[1], q[1])
        inner = wide * high if wide > 0 and high > 0 else 0.0
        areas = [(r[2] - r[0]) * (r[3] - r[1]) for r in (p, q)]
        return inner / (sum(areas) - inner)

    found = []
    for label in range(op.num_class):
        if label == op.background:
            continue
        scored = [(confidence[i * op.num_class + label], i) for i in range(count)]
        scored = sorted([s for s in scored if s[0] > op.confidence_threshold], key=lambda s: -s[0])
        kept: list[int] = []
        for score, i in scored[: op.nms_top_k]:
            if all(overlap(boxes[i], boxes[j]) <= op.nms_threshold for j in kept):
                kept.append(i)
                found.append((label, score, *boxes[i]))
    return sorted(found, key=lambda row: -row[1])[: op.keep_top_k]


@pytest.mark.host
@pytest.mark.parametrize(
    "changes",
    [{}, {"nms_threshold": 0.1}, {"nms_top_k": 5, "keep_top_k": 11}, {"keep_top_k": 0}],
    ids=str,
)
def test_by_loops(changes: dict[str, object]) -> None:
    op, x = detector(4, **changes), scene(40, 4)
    (y,) = op.reference(*x)
    want = naive(op, x)
    assert y.shape == (1, len(want), 6)
    np.testing.assert_allclose(y[0], np.reshape(want, (-1, 6)), atol=1e-5)
    assert op.bound(*(TensorType.of(a) for a in x))[0].dims[1] >= len(want)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (detector(3), [(1, 40), (1, 30), (1, 81)]),
        (detector(3), [(1, 40), (1, 33), (1, 80)]),
        (detector(3), [(1, 44), (1, 30), (1, 80)]),
        (detector(3), [(2, 40), (2, 30), (2, 80)]),
        (detector(3, keep_top_k=-1), [(1, 40), (1, 30), (1, 80)]),
        (detector(0), [(1, 40), (1, 30), (1, 80)]),
    ],
    ids=str,
)
def test_what_does_not_fit(op: DetectionOutput, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ShapeError, match="DetectionOutput"):
        op.infer(*(TensorType(s) for s in shapes))


@pytest.mark.host
def test_priors_that_do_not_fit() -> None:
    for op in (PriorBox((0, 2), SIZES, (1, 1), (0, 0)), PriorBox((2, 2), (), (1, 1), (0, 0))):
        with pytest.raises(ShapeError, match="PriorBox"):
            op.infer()
