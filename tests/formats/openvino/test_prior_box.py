"""PriorBox and PriorBoxClustered, against loops over single boxes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, refuse

Size = tuple[int, int]
MAPS: tuple[tuple[Size, Size], ...] = (((4, 4), (64, 64)), ((3, 5), (50, 70)), ((1, 1), (20, 30)))


def floats(attributes: dict[str, Any], name: str) -> list[float]:
    return [float(v) for v in str(attributes.get(name, "")).split(",") if v]


def ratios(attributes: dict[str, Any]) -> list[float]:
    found = [1.0]
    for ratio in floats(attributes, "aspect_ratio"):
        if all(abs(ratio - known) > 1e-6 for known in found):
            found += [ratio, 1 / ratio] if attributes.get("flip") else [ratio]
    return found[1:]


def shifted(attributes: dict[str, Any], x: float, y: float) -> list[list[float]]:
    """Boxes of fixed sizes about a centre; low corners at least 0, high ones at most 1 later."""
    found = []
    densities = floats(attributes, "density")
    for number, size in enumerate(floats(attributes, "fixed_size")):
        density = int(densities[number]) if densities else 1
        step, roots = int(size / density), map(math.sqrt, floats(attributes, "fixed_ratio"))
        kinds = [(size * root, size / root) for root in roots]
        if not kinds:
            kinds = [(float(int(size)), float(int(size)))] if densities else []
            kinds += [(size * math.sqrt(r), size / math.sqrt(r)) for r in ratios(attributes)]
        for wide, high in kinds:
            for row in range(density):
                for column in range(density):
                    u = x - int(size) // 2 + step / 2 + column * step
                    v = y - int(size) // 2 + step / 2 + row * step
                    found.append([u - wide / 2, v - high / 2, u + wide / 2, v + high / 2])
    return found


def about(x: float, y: float, wide: float, high: float) -> list[float]:
    return [x - wide / 2, y - high / 2, x + wide / 2, y + high / 2]


def prior_boxes(attributes: dict[str, Any], feature: Size, image: Size) -> np.ndarray:
    rows: list[list[float]] = []
    least, most = floats(attributes, "min_size"), floats(attributes, "max_size")
    every = attributes.get("scale_all_sizes", 1)
    for row, column in np.ndindex(feature):
        centre = []
        for place, name, n, size in (
            (column, "step_w", feature[1], image[1]),
            (row, "step_h", feature[0], image[0]),
        ):
            step = float(attributes.get(name, 0) or attributes.get("step", 0))
            offset = float(attributes.get("offset", 0.5)) if step else 0.5
            centre.append((place + offset) * (step or size / n))
        x, y = centre
        for box in shifted(attributes, x, y):
            scaled = [v / image[1 - i % 2] for i, v in enumerate(box)]
            rows.append([max(v, 0.0) if i < 2 else min(v, 1.0) for i, v in enumerate(scaled)])
        for number, size in enumerate(least):
            boxes = [about(x, y, size, size)]
            if number < len(most):
                boxes.append(about(x, y, *[math.sqrt(size * most[number])] * 2))
            if every or number == len(least) - 1:
                base = size if every else least[0]
                roots = map(math.sqrt, ratios(attributes))
                boxes += [about(x, y, base * root, base / root) for root in roots]
            rows += [[v / image[1 - i % 2] for i, v in enumerate(box)] for box in boxes]
    return result(rows, attributes)


def clustered(attributes: dict[str, Any], feature: Size, image: Size) -> np.ndarray:
    rows: list[list[float]] = []
    high = float(attributes.get("img_h", 0) or image[0])
    wide = float(attributes.get("img_w", 0) or image[1])
    down = float(attributes.get("step_h", 0) or attributes.get("step", 0))
    across = float(attributes.get("step_w", 0) or attributes.get("step", 0))
    if down == across == 0:
        down, across = high / feature[0], wide / feature[1]
    for row, column in np.ndindex(feature):
        offset = float(attributes.get("offset", 0.5))
        x, y = (column + offset) * across, (row + offset) * down
        sizes = zip(floats(attributes, "width"), floats(attributes, "height"), strict=True)
        boxes = [about(x, y, *size) for size in sizes]
        rows += [[v / (wide, high)[i % 2] for i, v in enumerate(box)] for box in boxes]
    return result(rows, attributes)


def result(rows: list[list[float]], attributes: dict[str, Any]) -> np.ndarray:
    boxes = np.array(rows).reshape(-1)
    if attributes.get("clip"):
        boxes = np.clip(boxes, 0, 1)
    variances = floats(attributes, "variance") or [0.1]
    spread = np.resize(np.array(variances), boxes.size)
    return np.stack([boxes, spread])[None].astype(np.float32)


#: What no layer may leave out.
PLAIN = {"clip": 0, "offset": 0.5}
FOUR = {"variance": "0.1,0.1,0.2,0.2"}
PRIORS: list[dict[str, Any]] = [
    {"min_size": 30, "max_size": 60, "aspect_ratio": 2, "flip": 1, "offset": 0.5, **FOUR},
    {"min_size": 30, "step": 16, "offset": 0.5, "variance": 0.1},
    {"min_size": "30.5", "aspect_ratio": "2,3", "step": 16, "offset": 0.5, "clip": 1},
    {"min_size": "20,50", "max_size": "40,90", "aspect_ratio": "2,2,1", "flip": 1, "offset": 0,
     "step": 8, **FOUR},
    {"min_size": "20,50,70", "max_size": "40", "aspect_ratio": "2,0.5,3", "flip": 1, "clip": 1,
     "offset": 0.5},
    {"min_size": "20,50", "max_size": "40,90", "aspect_ratio": "2,3", "scale_all_sizes": 0,
     "offset": 0.5},
    {"min_size": "20,50", "aspect_ratio": "1.5", "flip": 1, "scale_all_sizes": 0, "step": 9.5,
     "offset": 0.5},
    {"min_size": 12, "step_w": 10, "step_h": 12, "offset": 0.25, "aspect_ratio": 2},
    {"min_size": 12, "step_w": 10, "offset": 0.25},
    {"fixed_size": "16,9", "density": "2,3", "fixed_ratio": 1, "step": 16, "offset": 0.5, **FOUR},
    {"fixed_size": "17.5", "density": 4, "step": 16, "offset": 0.5, **FOUR},
    {"fixed_size": "33,15", "density": "2,1", "aspect_ratio": "2", "flip": 1, "clip": 1,
     "offset": 0.5, **FOUR},
    {"fixed_size": 16, "density": 2, "fixed_ratio": "1,2", "variance": 0.2, "offset": 0.5},
    {"fixed_size": 20, "density": 1, "fixed_ratio": 1, "min_size": 10, "max_size": 14, "offset": 0},
    {"img_h": 7, "img_w": 9, "min_size": 5, "density": "", "offset": 0.5},
]  # fmt: skip
CLUSTERED: list[dict[str, Any]] = [
    {"width": "20,30,8.5", "height": "10,44,9", "clip": 0, "step": 16, "offset": 0.5, **FOUR},
    {"width": "20", "height": "10", "clip": 1, "step": 0, "offset": 0.5, **FOUR},
    {"width": "20,12", "height": "10,33", "clip": 0, "img_h": 100, "img_w": 200, "offset": 0.5,
     **FOUR},
    {"width": "20,12", "height": "10,33", "clip": 0, "step": 8, "step_w": 4, "flip": 1,
     "offset": 0.5, **FOUR},
    {"width": "20", "height": "33", "clip": 0, "step_h": 8, "step_w": 4, "offset": 0, **FOUR},
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_priors(backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    for feature, image in MAPS:
        inputs = [np.zeros((2, 3, *feature), np.float32), np.zeros((2, 3, *image), np.float32)]
        for attributes in PRIORS:
            many.add("PriorBox", inputs, prior_boxes(attributes, feature, image), attributes)
        for attributes in CLUSTERED:
            many.add("PriorBoxClustered", inputs, clustered(attributes, feature, image), attributes)
    many.check(backend, tmp_path)


def test_one_input(tmp_path: Path) -> None:
    """The image's size is an attribute then."""
    many = Many(1e-6)
    feature, image = (3, 4), (30, 50)
    x = np.zeros((1, 8, *feature), np.float32)
    attributes = {"min_size": 9, "img_h": 30, "img_w": 50, "offset": 0.5}
    many.add("PriorBox", [x], prior_boxes(attributes, feature, image), attributes)
    attributes = {"min_size": 9, "img_size": 30, "offset": 0.5}
    many.add("PriorBox", [x], prior_boxes(attributes, feature, (30, 30)), attributes)
    attributes = {"width": 9, "height": 7, "img_h": 30, "img_w": 50, **PLAIN, **FOUR}
    many.add("PriorBoxClustered", [x], clustered(attributes, feature, image), attributes)
    many.check("numpy", tmp_path)


def test_what_openvino_leaves_out(tmp_path: Path) -> None:
    """A variance alone: one number a box. Fixed ratios: variances for as many as are counted."""
    many = Many(1e-6)
    inputs = [np.zeros((1, 3, 2, 2), np.float32), np.zeros((1, 3, 20, 20), np.float32)]
    attributes: dict[str, Any] = {"width": "4,5", "height": "3,3", **PLAIN}
    expected = clustered(attributes, (2, 2), (20, 20))
    expected[0, 1, 8:] = 0
    many.add("PriorBoxClustered", inputs, expected, attributes)
    attributes = {"fixed_size": 6, "density": 2, "fixed_ratio": "1,2", **PLAIN, **FOUR}
    expected = prior_boxes(attributes, (2, 2), (20, 20))
    expected[0, 1, 4 * 4 * 7 :] = 0
    many.add("PriorBox", inputs, expected, attributes)
    many.check("numpy", tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    inputs = [np.zeros((1, 3, 2, 2), np.float32), np.zeros((1, 3, 20, 20), np.float32)]
    wrong: tuple[tuple[str, dict[str, Any]], ...] = (
        ("PriorBox", {}),
        ("PriorBox", {"min_size": -1}),
        ("PriorBox", {"min_size": 5, "aspect_ratio": 0}),
        ("PriorBox", {"min_size": 5, "variance": "0.1,0.2"}),
        ("PriorBox", {"fixed_size": "5,6", "density": 1}),
        ("PriorBox", {"fixed_size": "5", "density": 0}),
        ("PriorBox", {"min_size": "five"}),
        ("PriorBoxClustered", {}),
        ("PriorBoxClustered", {"width": "1,2", "height": 3}),
        ("PriorBoxClustered", {"width": 1, "height": 3, "variance": "1,2,3"}),
    )
    for type_, attributes in wrong:
        refuse(tmp_path, type_, inputs, [(1, 2, 16)], PLAIN | attributes, "wrong")
    given = {"min_size": 5, **PLAIN}
    refuse(tmp_path, "PriorBox", inputs[:1], [(1, 2, 16)], given, "no image")
    refuse(tmp_path, "PriorBox", inputs, [(1, 2, 20)], given, "wrong")
