"""Region proposals on the device against NumPy, and the reference against loops."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.detection.proposal import Proposal

RNG = np.random.default_rng(61)
ANCHORS = ((-6.0, -2.0, 10.0, 8.0), (0.0, 0.0, 12.0, 30.0), (-20.0, -24.0, 20.0, 24.0))
OP = Proposal(ANCHORS, 8.0, 60, 20, 0.6, 5.0)
INFO = np.array([[70.0, 90.0, 1.5]], np.float32)


def scene(height: int, width: int, anchors: int = 3) -> list[np.ndarray]:
    count = 2 * anchors * height * width
    # Scores far enough apart that no rounding decides their order.
    scores = RNG.permutation(np.linspace(-2, 2, count)).reshape(1, -1, height, width)
    deltas = RNG.standard_normal((1, 4 * anchors, height, width)) * 0.4
    return [scores.astype(np.float32), deltas.astype(np.float32), INFO]


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (9, 11)], ids=str)
@pytest.mark.parametrize(
    "changes",
    [{}, {"pre_nms_top_n": 0, "post_nms_top_n": 1000}, {"pre_nms_top_n": 7, "nms_threshold": 2.0}],
    ids=["plain", "all", "few"],
)
def test_proposals(changes: dict[str, float], size: tuple[int, int]) -> None:
    check_op(dataclasses.replace(OP, **changes), *scene(*size), access=("texel",))


def test_every_access_and_a_gpu() -> None:
    x = scene(5, 7)
    check_op(OP, *x)
    check_op(OP, *x, access=("storage",), kind="discrete")


def test_nothing_large_enough() -> None:
    check_op(dataclasses.replace(OP, min_size=100.0), *scene(4, 5), access=("storage",))


def test_a_box_whose_size_overflows() -> None:
    """Half of it does not."""
    scores, deltas, info = scene(1, 2, 1)
    deltas[0, 1], deltas[0, 3] = 2.0, 0.6
    op = dataclasses.replace(OP, anchors=((0.0, 0.0, 12.0, 3e38),), min_size=0.0)
    check_op(op, scores, deltas, info, access=("storage",))


def test_more_than_the_loops_of_a_lane_take() -> None:
    x = scene(6, 7)
    check_op(OP, *x, access=("storage",), max_loop_rounds=40)
    check_op(OP, *x, host=True, max_loop_rounds=20)


def naive(op: Proposal, x: list[np.ndarray]) -> list[tuple[float, ...]]:
    scores, deltas, info = (a.astype(np.float64)[0] for a in x)
    height, width = scores.shape[1:]
    boxes = []
    for a, i, j in np.ndindex(len(op.anchors), height, width):
        x1, y1, x2, y2 = op.anchors[a]
        dx, dy, dw, dh = deltas[4 * a : 4 * a + 4, i, j]
        w, h = x2 - x1, y2 - y1
        cx = x1 + j * op.stride + w / 2 + w * dx
        cy = y1 + i * op.stride + h / 2 + h * dy
        w, h = w * math.exp(dw) / 2, h * math.exp(dh) / 2
        ends = (info[1] - 1, info[0] - 1) * 2
        moved = (cx - w, cy - h, cx + w, cy + h)
        corners = [max(min(v, e), 0.0) for v, e in zip(moved, ends, strict=True)]
        sides = corners[2] - corners[0] + 1, corners[3] - corners[1] + 1
        if min(sides) >= op.min_size * info[2]:
            boxes.append((scores[len(op.anchors) + a, i, j], *corners))
    boxes.sort(key=lambda b: -b[0])
    kept: list[tuple[float, ...]] = []
    for box in boxes[: op.pre_nms_top_n or None]:
        for other in kept:
            wide = min(box[3], other[3]) - max(box[1], other[1])
            high = min(box[4], other[4]) - max(box[2], other[2])
            inner = wide * high if wide > 0 and high > 0 else 0.0
            areas = [(b[3] - b[1]) * (b[4] - b[2]) for b in (box, other)]
            if inner > op.nms_threshold * (sum(areas) - inner):
                break
        else:
            kept.append(box)
    return kept[: op.post_nms_top_n]


@pytest.mark.host
@pytest.mark.parametrize(
    "changes", [{}, {"pre_nms_top_n": 0}, {"nms_threshold": 0.2, "post_nms_top_n": 5}], ids=str
)
def test_by_loops(changes: dict[str, float]) -> None:
    op, x = dataclasses.replace(OP, **changes), scene(6, 8)
    boxes, scores = op.reference(*x)
    want = np.array(naive(op, x))
    assert boxes.shape == (1, len(want), 1, 4)
    assert scores.shape == (1, len(want), 1, 1)
    np.testing.assert_allclose(boxes[0, :, 0], want[:, 1:], atol=1e-4)
    np.testing.assert_allclose(scores[0, :, 0, 0], want[:, 0], atol=1e-6)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (OP, [(1, 5, 4, 4), (1, 12, 4, 4), (1, 3)]),
        (OP, [(1, 6, 4, 4), (1, 11, 4, 4), (1, 3)]),
        (OP, [(1, 6, 4, 4), (1, 12, 4, 5), (1, 3)]),
        (OP, [(1, 6, 4, 4), (1, 12, 4, 4), (1, 4)]),
        (dataclasses.replace(OP, post_nms_top_n=-1), [(1, 6, 4, 4), (1, 12, 4, 4), (1, 3)]),
        (dataclasses.replace(OP, anchors=()), [(1, 6, 4, 4), (1, 12, 4, 4), (1, 3)]),
    ],
    ids=range(6),
)
def test_what_does_not_fit(op: Proposal, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ShapeError, match="Proposal"):
        op.infer(*(TensorType(s) for s in shapes))
