"""Non-maximum suppression against the specification's words, box by box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, run, run_everywhere, weights

from vknn.errors import ShapeError

OUTPUTS = ("boxes", "scores", "indices", "count")
KIND = "NonMaximumSuppression"


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of centre, width, height."""
    low, high = (
        np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2),
        np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2),
    )
    shared = float(np.prod(np.maximum(high - low, 0)))
    return shared / float(np.prod(a[2:]) + np.prod(b[2:]) - shared)


def expected(
    boxes: np.ndarray, scores: np.ndarray, iou: float, least: float, most: int, by_class: bool
) -> dict[str, np.ndarray]:
    batch, _, classes = scores.shape
    y = {
        "boxes": np.zeros((batch, most, 4), np.float32),
        "scores": np.zeros((batch, most, classes), np.float32),
        "indices": np.full((batch, most), -1, np.float32),
        "count": np.zeros(batch, np.float32),
    }
    for b in range(batch):
        best, label = scores[b].max(1), scores[b].argmax(1)
        order = np.argsort(-best, kind="stable")
        kept: list[int] = []
        for i in order:
            rivals = [k for k in kept if not by_class or label[k] == label[i]]
            if best[i] >= least and all(overlap(boxes[b, i], boxes[b, k]) <= iou for k in rivals):
                kept.append(int(i))
        kept = (kept or [int(order[0])])[:most]
        y["boxes"][b, : len(kept)] = boxes[b, kept]
        y["scores"][b, : len(kept)] = scores[b, kept]
        y["indices"][b, : len(kept)] = kept
        y["count"][b] = len(kept)
    return y


def some(batch: int, count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, batch, count, classes])
    boxes = np.concatenate((rng.random((batch, count, 2)) * 4, rng.random((batch, count, 2)) * 2 + 1
                            ), 2)  # fmt: skip
    return boxes.astype(np.float32), rng.random((batch, count, classes)).astype(np.float32)


def same(found: dict[str, Any], wanted: dict[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize(
    ("batch", "count", "classes", "most"),
    [(1, 1, 1, 1), (1, 12, 1, 5), (2, 20, 3, 6), (3, 15, 4, 40), (2, 9, 2, 1)],
)
@pytest.mark.parametrize(("iou", "least"), [(0.3, 0.0), (0.5, 0.8), (0.0, 0.6), (0.4, 1.5)])
def test_boxes(
    by_class: bool, batch: int, count: int, classes: int, most: int, iou: float, least: float
) -> None:
    boxes, scores = some(batch, count, classes)
    params = {"iouThreshold": iou, "scoreThreshold": least, "maxBoxes": most}
    net = layer(KIND, ("b", "s"), OUTPUTS, perClassSuppression=by_class, **params)
    found = run_everywhere(net, {"b": boxes, "s": scores}, OUTPUTS)
    limit = float(np.float32(iou)), float(np.float32(least))
    same(found, expected(boxes, scores, *limit, most, by_class))


@pytest.mark.parametrize("given", [3, 4, 5])
@pytest.mark.parametrize("stored", [False, True])
def test_limits_as_inputs(given: int, stored: bool) -> None:
    boxes, scores = some(2, 14, 2)
    numbers = {"iou": 0.25, "least": 0.5, "most": 4.0}
    wrong = {"iouThreshold": 0.9, "scoreThreshold": 0.1, "maxBoxes": 11}
    for key, value in list(zip(wrong, numbers.values(), strict=True))[given - 2 :]:
        wrong[key] = int(value) if key == "maxBoxes" else value
    names = list(numbers)[: given - 2]
    feeds = {"b": boxes, "s": scores}
    layers = []
    for name in names:
        if stored:
            constant = layer("loadConstantND", (), (name,), name=name, shape=[1],
                             data=weights([numbers[name]]))  # fmt: skip
            layers.append(constant)
        else:
            feeds[name] = np.float32([numbers[name]])
    layers.append(layer(KIND, ("b", "s", *names), OUTPUTS, perClassSuppression=True, **wrong))
    found = run_everywhere(layers, feeds, OUTPUTS)
    same(found, expected(boxes, scores, 0.25, 0.5, 4, True))


def test_equality() -> None:
    """A score equal to the least one counts; an overlap equal to the limit suppresses nothing."""
    boxes = np.array([[[0, 0, 2, 2], [1, 0, 2, 2], [0, 1, 2, 2]]], np.float32)  # overlap 1/3
    scores = np.array([[[0.5], [0.75], [0.5]]], np.float32)
    third = float(np.float32(2) / np.float32(6))
    for iou, count in ((third, 3), (third - 1e-3, 2)):
        net = layer(KIND, ("b", "s"), OUTPUTS, iouThreshold=iou, scoreThreshold=0.5, maxBoxes=3)
        found = run_everywhere(net, {"b": boxes, "s": scores}, OUTPUTS)
        # The second box is the best; a third of it is shared with the first, less with the last.
        assert found["count"].tolist() == [count]
        assert found["indices"][0, 0] == 1


def test_equal_scores_keep_their_order() -> None:
    boxes = np.array([[[8 * i, 0, 2, 2] for i in range(4)]], np.float32)
    scores = np.full((1, 4, 2), 0.5, np.float32)
    for by_class in (False, True):
        net = layer(KIND, ("b", "s"), OUTPUTS, iouThreshold=0.5, maxBoxes=3,
                    perClassSuppression=by_class)  # fmt: skip
        found = run_everywhere(net, {"b": boxes, "s": scores}, OUTPUTS)
        assert found["indices"].tolist() == [[0, 1, 2]]


def test_refused() -> None:
    boxes, scores = some(2, 5, 3)
    wrong: list[tuple[np.ndarray, np.ndarray, int]] = [
        (boxes, scores, 0),
        (boxes, scores[:1], 3),
        (boxes[:, :4], scores, 3),
        (boxes[..., :3], scores, 3),
        (boxes[0], scores[0], 3),
        (boxes, scores, 1 << 40),
    ]
    for b, s, most in wrong:
        with pytest.raises(ShapeError, match=KIND):
            run(layer(KIND, ("b", "s"), OUTPUTS, maxBoxes=most), {"b": b, "s": s}, OUTPUTS)
