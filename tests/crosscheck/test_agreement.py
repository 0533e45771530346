"""Agreement of answers: classes and boxes that were swapped on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.answers import Found
from vknn.crosscheck.agreement import match_boxes, top_agreement


def scores(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_the_same_scores_agree() -> None:
    x = np.random.default_rng(0).random((4, 10)).astype(np.float32)
    found = top_agreement(x, x, "prob")
    assert (found.output, found.examples, found.top1, found.top5) == ("prob", 4, 1, 1)


def test_a_swap_of_the_best_two() -> None:
    right = scores([9, 8, 7, 6, 5, 1, 0], [9, 8, 7, 6, 5, 1, 0])
    wrong = right.copy()
    wrong[1, [0, 1]] = wrong[1, [1, 0]]
    found = top_agreement(wrong, right)
    assert (found.top1, found.top5) == (0.5, 1.0)


def test_a_class_that_leaves_the_best_five() -> None:
    right = scores([9, 8, 7, 6, 5, 1, 0])
    wrong = right.copy()
    wrong[0, [4, 6]] = wrong[0, [6, 4]]
    found = top_agreement(wrong, right)
    assert (found.top1, found.top5) == (1.0, pytest.approx(0.8))


def test_equal_scores_are_all_right() -> None:
    right = scores([1, 1, 0])
    assert top_agreement(scores([1, 2, 0]), right).top1 == 1
    assert top_agreement(scores([0, 0, 1]), right).top1 == 0


def test_nan_is_no_score() -> None:
    right = scores([3, 2, 1])
    assert top_agreement(scores([np.nan, 2, 1]), right).top1 == 0


def test_vectors_of_any_rank() -> None:
    right = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)
    assert top_agreement(right, right).examples == 1
    assert top_agreement(-right, right).top1 == 0


def thing(number: int, score: float, *box: float) -> Found:
    return Found(number, None, score, (box[0], box[1], box[2], box[3]))


RIGHT = [thing(1, 0.9, 0, 0, 10, 10), thing(2, 0.8, 20, 20, 40, 40), thing(1, 0.7, 50, 0, 60, 10)]


def test_the_same_boxes_match_in_any_order() -> None:
    found = match_boxes(RIGHT[::-1], RIGHT)
    assert (found.matched, found.mean_iou, found.least_iou, found.score_error) == (3, 1, 1, 0)
    assert found.missed == found.extra == ()


def test_a_moved_box_and_another_score() -> None:
    moved = [RIGHT[0], thing(2, 0.75, 20, 20, 40, 30), RIGHT[2]]
    found = match_boxes(moved, RIGHT)
    assert found.matched == 3
    assert found.least_iou == pytest.approx(0.5)
    assert found.mean_iou == pytest.approx(2.5 / 3)
    assert found.score_error == pytest.approx(0.05)


def test_swapped_classes_do_not_match() -> None:
    swapped = [thing(2, 0.9, 0, 0, 10, 10), thing(1, 0.8, 20, 20, 40, 40), RIGHT[2]]
    found = match_boxes(swapped, RIGHT)
    assert (found.expected, found.actual, found.matched) == (3, 3, 1)
    assert found.missed == ("1 0.90 at 0,0,10,10", "2 0.80 at 20,20,40,40")
    assert len(found.extra) == 2


def test_one_box_matches_once() -> None:
    found = match_boxes([RIGHT[0], thing(1, 0.6, 0, 0, 10, 9)], RIGHT[:1])
    assert (found.matched, found.mean_iou) == (1, 1)
    assert found.extra == ("1 0.60 at 0,0,10,9",)


def test_no_boxes() -> None:
    assert match_boxes([], []).mean_iou == 1
    assert match_boxes([], RIGHT).mean_iou == 0
    assert len(match_boxes([], RIGHT).missed) == 3
