"""Region proposals in loops over single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tests.detections import Row, overlap

from vknn.ops.detection.heap import heap_order


def clipped(box: Sequence[float], wide: float, high: float) -> list[float]:
    """Cut off at 0 and at the ends of the image."""
    return [min(max(v, 0.0), (wide, high)[i % 2]) for i, v in enumerate(box)]


def caffe_anchors(base: int, ratios: Sequence[float], scales: Sequence[float]) -> list[Row]:
    """Whole numbers about the middle of a box from 0 to base - 1."""
    found = []
    middle = (base - 1) / 2
    for ratio in ratios:
        wide = math.floor(math.sqrt(base * base / ratio) + 0.5)
        high = math.floor(wide * ratio + 0.5)
        for scale in scales:
            a, b = (wide * scale - 1) / 2, (high * scale - 1) / 2
            found.append((middle - a, middle - b, middle + a, middle + b))
    return found


def tensorflow_anchors(base: int, ratios: Sequence[float], scales: Sequence[float]) -> list[Row]:
    """About 0."""
    found = []
    for ratio in ratios:
        wide = base / math.sqrt(ratio)
        for scale in scales:
            a, b = wide * scale / 2, wide * ratio * scale / 2
            found.append((-a, -b, a, b))
    return found


def proposals(
    scores: np.ndarray,
    deltas: np.ndarray,
    info: Sequence[float],
    anchors: Sequence[Row],
    *,
    stride: int,
    before: int,
    after: int,
    nms: float,
    least: float,
    tensorflow: bool = False,
    simpler: bool = False,
    xy_scale: float = 1.0,
    wh_scale: float = 1.0,
    clip_before: bool = True,
    clip_after: bool = False,
    normalize: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """[N * after, 5] of image and corners, and the scores."""
    images, _, rows, columns = scores.shape
    count, extra = len(anchors), 0.0 if tensorflow else 1.0
    info = [float(int(v)) for v in info] if simpler else [float(v) for v in info]
    high, wide = info[0], info[1]
    if tensorflow:
        wide, high = high, wide
    boxes_out, scores_out = np.zeros((images, after, 5)), np.zeros((images, after))
    for image in range(images):
        boxes: list[list[float]] = []
        values: list[float] = []
        for row, column, a in np.ndindex(rows, columns, count):
            x, y = (row, column) if tensorflow else (column, row)
            box = [v + (x, y)[i % 2] * stride for i, v in enumerate(anchors[a])]
            box = clipped(box, wide, high) if tensorflow else box
            d = deltas[image, 4 * a : 4 * a + 4, row, column].astype(np.float64)
            for i in (0, 1):
                side = box[i + 2] - box[i] + extra
                centre = box[i] + side / 2 + side * d[i] / xy_scale
                side *= math.exp(d[i + 2] / wh_scale)
                box[i], box[i + 2] = centre - side / 2, centre + side / 2
            box = clipped(box, wide - extra, high - extra) if clip_before else box
            sides = [box[i + 2] - box[i] + extra for i in (0, 1)]
            score = float(scores[image, count + a, row, column])
            if simpler:
                sides = [float(int(box[i + 2] - box[i]) + 1) for i in (0, 1)]
            large = sides[0] >= least * info[-1] and sides[1] >= least * info[2]
            if simpler and not (large and score > 0):
                continue
            boxes.append(box)
            values.append(score if large else 0.0)
        if simpler:
            order = sorted(range(len(values)), key=lambda n: (-values[n], -n))[:before]
        else:
            order = heap_order(np.array(values, np.float32), before).tolist()
        kept: list[int] = []
        for n in order:
            if len(kept) < after and all(
                overlap(boxes[n], boxes[m], extra, not simpler) <= nms for m in kept
            ):
                kept.append(n)
        for place, n in enumerate(kept):
            box = clipped(boxes[n], wide, high) if clip_after else boxes[n]
            box = [v / (wide, high)[i % 2] for i, v in enumerate(box)] if normalize else box
            boxes_out[image, place] = image, *box
            scores_out[image, place] = values[n]
        if len(kept) < after and not simpler:
            boxes_out[image, len(kept), 0] = -1
    return boxes_out.reshape(-1, 5), scores_out.reshape(-1)
