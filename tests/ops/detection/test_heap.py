"""The order of a heap against results of C++'s std::partial_sort."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.ops.detection.heap import heap_order

#: Scores, how many are wanted, which they are.
KNOWN = (
    ("0 0 1 2 2 0 3 2 1 3 2 1 3", "12 9 6 3 10 4 7"),
    ("0 0 1 2 3 0 1 1 2 0 0 1 1 2 0 0 0 3 2 3", "19 17 4 8 18 3 13 7 2 11 12 6 1"),
    (
        "2 1 1 0 1 2 0 2 1 3 2 1 3 1 3 1 0 2 2 3",
        "12 14 19 9 18 7 10 5 17 0 15 8 4 1 11 2 13 3 16 6",
    ),
)


@pytest.mark.parametrize(("scores", "wanted"), KNOWN)
def test_equal_scores(scores: str, wanted: str) -> None:
    order = [int(n) for n in wanted.split()]
    found = heap_order(np.array(scores.split(), np.float32), len(order))
    assert found.tolist() == order


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40, 100])
def test_any_length(count: int) -> None:
    rng = np.random.default_rng(count)
    for size in (1, 2, 7, 8, 40, 63):
        scores = rng.integers(0, 9, size).astype(np.float32)
        order = heap_order(scores, count)
        assert len(set(order.tolist())) == len(order) == min(size, count)
        assert scores[order].tolist() == sorted(scores.tolist(), reverse=True)[:count]


def test_different_scores_are_sorted() -> None:
    scores = np.random.default_rng(1).permutation(50).astype(np.float32)
    assert heap_order(scores, 30).tolist() == np.argsort(-scores)[:30].tolist()
