"""Non-maximum suppression against cases worked out by hand and against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.answers.nms import overlaps, suppressed


def test_overlaps() -> None:
    box = np.array([0.0, 0, 10, 10])
    others = np.array(
        [
            (0, 0, 10, 10), (5, 0, 15, 10), (10, 0, 20, 10),
            (2, 2, 7, 7), (3, 3, 3, 9), (50, 50, 60, 60),
        ],
        float,
    )  # fmt: skip
    assert overlaps(box, others).tolist() == [1, 50 / 150, 0, 25 / 100, 0, 0]
    nothing = np.zeros(4)
    assert overlaps(nothing, np.zeros((2, 4))).tolist() == [0, 0]


def test_the_best_of_a_class_stays() -> None:
    boxes = np.array([(0, 0, 10, 10), (1, 0, 11, 10), (0, 0, 10, 10), (30, 30, 40, 40)], float)
    scores, classes = np.array([0.5, 0.9, 0.8, 0.1]), np.array([1, 1, 2, 1])
    assert suppressed(boxes, scores, classes, 0.5, 100).tolist() == [1, 2, 3]
    assert suppressed(boxes, scores, classes, 0.9, 100).tolist() == [1, 2, 0, 3]
    assert suppressed(boxes, scores, classes, 0.5, 2).tolist() == [1, 2]
    assert suppressed(boxes[:0], scores[:0], classes[:0], 0.5, 2).tolist() == []


def test_of_equal_scores_the_first_stays() -> None:
    boxes = np.tile([0.0, 0, 4, 4], (5, 1))
    assert suppressed(boxes, np.ones(5), np.zeros(5), 0.5, 9).tolist() == [0]
    without_area = np.tile([1.0, 1, 1, 1], (3, 1))
    assert suppressed(without_area, np.ones(3), np.zeros(3), 0.5, 9).tolist() == [0, 1, 2]


@pytest.mark.long
def test_hundreds_of_boxes_against_all_pairs() -> None:
    random = np.random.default_rng(3)
    corner = random.uniform(0, 80, (613, 2))
    boxes = np.concatenate([corner, corner + random.uniform(1, 30, (613, 2))], axis=1)
    scores, classes = random.uniform(size=613).round(2), random.integers(0, 3, 613)
    kept = suppressed(boxes, scores, classes, 0.4, 10000)
    expected: list[int] = []
    for i in sorted(range(613), key=lambda i: (-scores[i], i)):
        clear = True
        for j in expected:
            w = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
            h = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
            common = max(w, 0) * max(h, 0)
            areas = sum((boxes[k, 2] - boxes[k, 0]) * (boxes[k, 3] - boxes[k, 1]) for k in (i, j))
            clear &= classes[i] != classes[j] or common / (areas - common) <= 0.4
        if clear:
            expected.append(i)
    assert 20 < len(expected) < 600
    assert kept.tolist() == expected
