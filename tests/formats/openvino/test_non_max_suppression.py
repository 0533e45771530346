"""NonMaxSuppression, against loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, refuse

F = np.float32


def corners(box: np.ndarray, centre: bool) -> tuple[F, F, F, F]:
    a, b, c, d = (F(v) for v in box)
    if centre:
        return b - d / F(2), a - c / F(2), b + d / F(2), a + c / F(2)
    return min(a, c), min(b, d), max(a, c), max(b, d)


def overlap(one: np.ndarray, two: np.ndarray, centre: bool) -> float:
    p, q = corners(one, centre), corners(two, centre)
    areas = [(r[2] - r[0]) * (r[3] - r[1]) for r in (p, q)]
    if min(areas) <= 0:
        return 0.0
    high, wide = (max(min(p[i + 2], q[i + 2]) - max(p[i], q[i]), F(0)) for i in (0, 1))
    return float(high * wide / (areas[0] + areas[1] - high * wide))


def selected(
    boxes: np.ndarray,
    scores: np.ndarray,
    rows: int,
    most: int | None = None,
    iou: float = 1.0,
    least: float = 0.0,
    centre: bool = False,
    by_score: bool = True,
) -> np.ndarray:
    found = []
    for image, label in np.ndindex(scores.shape[:2]):
        column = scores[image, label]
        order = sorted(np.flatnonzero(column > F(least)), key=lambda n: (-column[n], n))
        kept: list[int] = []
        for n in order:
            if len(kept) < (len(column) if most is None else most) and all(
                overlap(boxes[image, n], boxes[image, m], centre) < F(iou) for m in kept
            ):
                kept.append(n)
        found += [(-column[n], image, label, n) for n in kept]
    found = sorted(found) if by_score else found
    y = np.full((rows, 3), -1, np.int32)
    for row, (_, *names) in enumerate(found[:rows]):
        y[row] = names
    return y


def scene(seed: int, images: int, classes: int, count: int, centre: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.7, (images, count, 2))
    size = rng.uniform(0.1, 0.5, (images, count, 2))
    boxes = np.concatenate([low, size if centre else low + size], axis=2)
    boxes[:, 3] = boxes[:, 1]  # the same box twice
    boxes[:, 4, 2:] = 0 if centre else boxes[:, 4, :2]  # no area
    if not centre:  # another pair of corners
        boxes[:, 2] = boxes[:, 2][:, [2, 1, 0, 3]]
    scores = rng.permutation(images * classes * count) / (images * classes * count)
    return [boxes.astype(F), scores.reshape(images, classes, count).astype(F)]


#: Boxes of a class, the thresholds, attributes and what these mean.
CASES: list[tuple[list[Any], dict[str, Any], dict[str, Any]]] = [
    ([], {}, {}),
    ([3], {}, {}),
    ([4, 0.5], {"center_point_box": 0}, {}),
    ([4, 0.5, 0.3], {"center_point_box": "false", "sort_result_descending": 1}, {}),
    ([100, 0.4, 0.0], {"center_point_box": 1}, {"centre": True}),
    ([4, 0.4, 0.2], {"center_point_box": "true"}, {"centre": True}),
    ([3, 0.5, 0.25], {"sort_result_descending": 0}, {"by_score": False}),
    ([5, 0.6], {"sort_result_descending": "false", "center_point_box": 1},
     {"by_score": False, "centre": True}),
    ([4, 0.0, 0.1], {}, {}),
    ([4, 0.5, 2.0], {}, {}),
    ([4, 1.0, -1.0], {}, {}),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_attributes(backend: str, tmp_path: Path) -> None:
    many = Many()
    for number, (given, attributes, settings) in enumerate(CASES):
        images, classes, count = 1 + number % 2, 1 + number % 3, 8 + number % 4
        boxes, scores = scene(number, images, classes, count, settings.get("centre", False))
        if number % 4 == 2:  # equal ones
            scores = (np.ceil(scores * 4) / 4).astype(F)
        names = dict(zip(("most", "iou", "least"), given, strict=False))
        most = min(names.get("most", count), count)
        rows = images * classes * most + (0, 5, -2)[number % 3]
        expected = selected(boxes, scores, rows, **names, **settings)
        inputs: list[Input] = [boxes, scores]
        for place, value in enumerate(given):
            array = np.array(value, np.int32 if place == 0 else F)
            inputs.append(Fixed(array.reshape(-1) if number % 2 else array))
        many.add("NonMaxSuppression", inputs, expected, attributes)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_settings_that_are_fed(backend: str, tmp_path: Path) -> None:
    many = Many()
    boxes, scores = scene(1, 1, 2, 9, False)
    settings = [np.array([3], np.int32), np.array([0.5], F), np.array([0.2], F)]
    expected = selected(boxes, scores, 6, 3, 0.5, 0.2)
    many.add("NonMaxSuppression", [boxes, scores, *settings], expected)
    many.check(backend, tmp_path)


def test_none_of_a_class(tmp_path: Path) -> None:
    many = Many()
    boxes, scores = scene(1, 1, 2, 9, False)
    none = Fixed(np.array([0], np.int32))
    many.add("NonMaxSuppression", [boxes, scores, none], np.full((4, 3), -1, np.int32))
    many.check("numpy", tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    boxes, scores = scene(0, 1, 2, 8, False)
    shape = [(16, 3)]
    name = "NonMaxSuppression"
    refuse(tmp_path, name, [boxes, scores[:, :, :7]], shape, {}, "boxes")
    refuse(tmp_path, name, [boxes[0], scores], shape, {}, "boxes")
    refuse(tmp_path, name, [boxes, scores], [(16, 4)], {}, "output")
    many = Fixed(np.array([1, 2], np.int32))
    refuse(tmp_path, name, [boxes, scores, many], shape, {}, "number of boxes")
    few = Fixed(np.array(-1, np.int32))
    refuse(tmp_path, name, [boxes, scores, few], shape, {}, "at most -1")
    refuse(
        tmp_path, name, [boxes, scores], shape, {"center_point_box": "maybe"}, "center_point_box"
    )
