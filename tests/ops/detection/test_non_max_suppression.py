"""NonMaxSuppression: the reference by hand and by a queue, the device."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import f32, i32, refuses
from vknn.ops.detection.non_max_suppression import NonMaxSuppression, overlaps


def some(batch: int, classes: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    first, size = rng.uniform(0, 4, (batch, count, 2)), rng.uniform(-2, 2, (batch, count, 2))
    boxes = np.concatenate([first, first + size], axis=2).astype(np.float32)
    scores = rng.permuted(np.linspace(0, 1, batch * classes * count))
    return boxes, scores.reshape(batch, classes, count).astype(np.float32)


SIX = np.array(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        [1, 11.1, 0, 10.1],
        [0, 100, 1, 101],
    ],
    np.float32,
)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


@pytest.mark.host
def test_by_hand() -> None:
    op = NonMaxSuppression(4, 0.5, 0.0)
    indices, scores, counts = op.reference(SIX[None], SCORES[None, None])
    assert indices.tolist() == [[[3, 0, 5, -1]]]
    assert scores[0, 0].tolist() == [*SCORES[[3, 0, 5]], 0.0]
    assert counts.tolist() == [[3]]
    few = NonMaxSuppression(4, 0.5, 0.9).reference(SIX[None], SCORES[None, None])
    assert few[0].tolist() == [[[3, -1, -1, -1]]]
    equal = NonMaxSuppression(4, 0.5, 0.9, score_inclusive=True)
    assert equal.reference(SIX[None], SCORES[None, None])[0].tolist() == [[[3, 0, -1, -1]]]


@pytest.mark.host
def test_equal_scores_and_overlaps() -> None:
    boxes = np.array([[0, 0, 2, 2], [0, 0, 2, 1], [0, 0, 0, 2], [0, 0, 2, 2]], np.float32)[None]
    scores = np.full((1, 1, 4), 0.5, np.float32)
    assert NonMaxSuppression(9, 0.5).reference(boxes, scores)[0][0, 0, :4].tolist() == [0, 1, 2, -1]
    hard = NonMaxSuppression(9, 0.5, iou_inclusive=True)
    assert hard.reference(boxes, scores)[0][0, 0, :3].tolist() == [0, 2, -1]


def by_queue(
    boxes: np.ndarray, scores: np.ndarray, op: NonMaxSuppression
) -> tuple[list[int], list[float]]:
    """Candidates in a queue; what has been selected since is held against one when it is popped."""
    queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > op.score_threshold]
    heapq.heapify(queue)
    chosen: list[int] = []
    kept: list[float] = []
    while queue and len(chosen) < op.max_output:
        score, index, seen = heapq.heappop(queue)
        decayed, gone = -score, False
        for other in chosen[seen:][::-1]:
            iou = float(overlaps(boxes[index : index + 1], boxes[other])[0])
            gone = gone or iou >= op.iou_threshold
            if op.soft_sigma:
                decayed *= math.exp(-0.5 * iou * iou / op.soft_sigma)
        if gone or decayed <= op.score_threshold:
            continue
        if decayed == -score:
            chosen.append(index)
            kept.append(decayed)
        else:
            heapq.heappush(queue, (-decayed, index, len(chosen)))
    return chosen, kept


@pytest.mark.host
@pytest.mark.parametrize("sigma", [0.0, 0.3, 2.0])
def test_reference_by_queue(sigma: float) -> None:
    boxes, scores = some(1, 1, 40)
    op = NonMaxSuppression(15, 0.4, 0.05, sigma, iou_inclusive=True)
    indices, best, counts = op.reference(boxes, scores)
    chosen, kept = by_queue(boxes[0], scores[0, 0], op)
    assert counts[0, 0] == len(chosen)
    assert indices[0, 0, : len(chosen)].tolist() == chosen
    np.testing.assert_allclose(best[0, 0, : len(kept)], kept, rtol=1e-5)


@pytest.mark.host
def test_refused() -> None:
    op = NonMaxSuppression(3, 0.5)
    refuses(op, f32(1, 5, 4), f32(1, 2, 6), match="do not suit")
    refuses(op, f32(5, 4), f32(5), match="do not suit")
    refuses(op, f32(1, 5, 4), i32(1, 2, 5), match="float32")
    refuses(NonMaxSuppression(-1, 0.5), f32(1, 5, 4), f32(1, 2, 5), match="max_output")


@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize(("batch", "classes", "count"), [(1, 1, 1), (1, 3, 7), (2, 2, 150)])
def test_device(batch: int, classes: int, count: int, sigma: float) -> None:
    arrays = some(batch, classes, count)
    for most, inclusive in ((3, False), (40, True)):
        op = NonMaxSuppression(most, 0.3, 0.1, sigma, inclusive, inclusive)
        check_op(op, *arrays)
    check_op(NonMaxSuppression(200, 0.3, soft_sigma=sigma), *arrays, access=("storage",))


def test_in_several_dispatches() -> None:
    check_op(NonMaxSuppression(40, 0.3), *some(1, 2, 150), max_loop_rounds=60, access=("image",))


def test_lists_that_end_in_the_first_of_several_dispatches() -> None:
    boxes, scores = some(1, 3, 150)
    scores[0, 0, 9:], scores[0, 2] = -1, -1
    op = NonMaxSuppression(40, 0.3, 0.0)
    check_op(op, boxes, scores, max_loop_rounds=60, access=("image",))


def test_fp16() -> None:
    check_op(NonMaxSuppression(9, 0.3), *some(1, 2, 7), precision="fp16")


def test_nothing_stays() -> None:
    check_op(NonMaxSuppression(3, 0.5, 9.0), *some(1, 2, 7))
