"""Detection in loops over single numbers, as the specifications of layers have it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Box = Sequence[float]
Row = tuple[float, ...]


def overlap(a: Box, b: Box, extra: float = 0.0, gate: bool = True) -> float:
    """Intersection over union; ``extra`` belongs to each side."""
    wide, high = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    if gate and min(wide, high) < 0:
        return 0.0
    inner = max(wide + extra, 0.0) * max(high + extra, 0.0)
    areas = [(r[2] - r[0] + extra) * (r[3] - r[1] + extra) for r in (a, b)]
    either = sum(areas) - inner
    return inner / either if either > 0 else 0.0


def moved(prior: Box, delta: Box, spread: Box, corners: bool, clip: bool) -> list[float]:
    """A prior box moved by what the network says."""
    d = [v * s for v, s in zip(delta, spread, strict=True)]
    if corners:
        box = [p + v for p, v in zip(prior, d, strict=True)]
    else:
        box = [0.0] * 4
        for i in (0, 1):
            size = prior[i + 2] - prior[i]
            centre = (prior[i + 2] + prior[i]) / 2 + d[i] * size
            size *= math.exp(d[i + 2])
            box[i], box[i + 2] = centre - size / 2, centre + size / 2
    return [min(max(v, 0.0), 1.0) for v in box] if clip else box


def detections(
    location: np.ndarray,
    scores: np.ndarray,
    priors: np.ndarray,
    *,
    classes: int,
    nms: float,
    confidence: float = -3.4028234663852886e38,
    top_k: int = -1,
    keep_top_k: int = -1,
    background: int = 0,
    corners: bool = True,
    encoded: bool = False,
    shared: bool = True,
    mxnet: bool = False,
    clip_before: bool = False,
    clip_after: bool = False,
    arm: np.ndarray | None = None,
    arm_size: tuple[int, int] = (1, 1),
) -> list[Row]:
    """SSD's detections: image, class, score, corners."""
    found: list[Row] = []
    count, lists = priors.shape[2] // 4, 1 if shared else classes
    for image in range(len(scores)):
        own = priors[image if len(priors) > 1 else 0].astype(np.float64).reshape(-1, count, 4)
        location_ = location[image].astype(np.float64).reshape(count, lists, 4)
        boxes = []
        for p, which in np.ndindex(count, lists):
            prior, spread = own[0, p], [1.0] * 4 if encoded else own[1, p]
            if arm is not None:
                delta = arm[image].astype(np.float64).reshape(count, 4)[p]
                prior = moved(prior, delta, spread, corners, clip_before)
                prior = np.asarray(prior) / (arm_size * 2)
            boxes.append(moved(prior, location_[p, which], spread, corners, clip_before))
        seen = scores[image].astype(np.float64).reshape(count, classes)
        kept: list[tuple[float, int, int]] = []
        for group in _groups(seen, confidence, top_k, background, mxnet):
            mine: list[tuple[float, int, int]] = []
            for entry in group:
                here = boxes[entry[2] * lists + entry[1] % lists]
                others = (boxes[e[2] * lists + e[1] % lists] for e in mine)
                if all(overlap(here, other) <= nms for other in others):
                    mine.append(entry)
            kept += mine
        if keep_top_k >= 0:  # equal ones by class
            kept = sorted(kept, key=lambda e: e[0])[:keep_top_k]
        for score, label, p in sorted(kept, key=lambda e: (e[1], e[0])):
            corner = boxes[p * lists + label % lists]
            if clip_after:
                corner = [min(max(v, 0.0), 1.0) for v in corner]
            found.append((image, label - int(mxnet), -score, *corner))
    return found


def _groups(
    seen: np.ndarray, confidence: float, top_k: int, background: int, mxnet: bool
) -> list[list[tuple[float, int, int]]]:
    """For each class what is looked at, best first: score below 0, class, prior."""
    (count, classes), most = seen.shape, top_k if top_k >= 0 else None
    listed: list[tuple[float, int, int]] = []
    if mxnet:
        for p in range(count):
            best = 1 + int(np.argmax(seen[p, 1:]))
            if seen[p, best] >= np.float32(confidence) and seen[p, best] > -1:
                listed.append((-seen[p, best], best, p))
        listed = sorted(listed)[:most]
        return [[e for e in listed if e[1] == label] for label in range(classes)]
    groups = []
    for label in range(classes):
        able = [(-seen[p, label], label, p) for p in range(count)]
        able = sorted(e for e in able if -e[0] > np.float32(confidence))
        groups.append([] if label == background else able[:most])
    return groups
