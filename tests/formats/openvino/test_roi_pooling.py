"""ROIPooling, PSROIPooling and the pyramid's ROIAlign, against loops over single bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, refuse

F = np.float32


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def boxes(
    seed: int, count: int, images: int, high: float, wide: float, end: int = 99
) -> np.ndarray:
    """[count, 5]: regions, some across the image's edges; from ``end`` on nothing counts."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-0.1, 0.8, (count, 2))
    corners = np.concatenate([low, low + rng.uniform(0, 0.5, low.shape)], axis=1)
    rois = np.concatenate([rng.integers(0, images, (count, 1)), corners], axis=1)
    rois[:, 1:] *= (wide, high, wide, high)
    if end < count:
        rois[end, 0] = -1
    return rois.astype(F)


def away(v: float) -> int:
    """Rounded, halves away from 0."""
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


def listed(rois: np.ndarray) -> int:
    ends = np.flatnonzero(rois[:, 0] == -1)
    return int(ends[0]) if len(ends) else len(rois)


def maxima(x: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float) -> np.ndarray:
    y = np.zeros((len(rois), x.shape[1], *size), F)
    for r in range(listed(rois)):
        x1, y1, x2, y2 = (away(float(v * F(scale))) for v in rois[r, 1:])
        high, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j in np.ndindex(size):
            a = [y1 + i * high // size[0], x1 + j * wide // size[1]]
            b = [y1 - (-(i + 1) * high // size[0]), x1 - (-(j + 1) * wide // size[1])]
            rows, columns = (
                slice(min(max(p, 0), n), min(max(q, 0), n))
                for p, q, n in zip(a, b, x.shape[2:], strict=True)
            )
            part = x[int(rois[r, 0])][:, rows, columns]
            if part.size:
                y[r, :, i, j] = part.max(axis=(1, 2))
    return y


def sampled(plane: np.ndarray, y: float, x: float) -> float:
    rows, columns = plane.shape
    if not (0 <= y <= rows - 1 and 0 <= x <= columns - 1):
        return 0.0
    top, left = int(y), int(x)
    low, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
    upper = plane[top, left] * (1 - x + left) + plane[top, right] * (x - left)
    lower = plane[low, left] * (1 - x + left) + plane[low, right] * (x - left)
    return float(upper * (1 - y + top) + lower * (y - top))


def spread(low: F, high: F, count: int, size: int) -> list[float]:
    """Places of samples from corner to corner, in float32 as it decides what lies outside."""
    last = F(size - 1)
    if count == 1:
        return [float(F(0.5) * (low + high) * last)]
    return [float(F(i) * ((high - low) * last / F(count - 1)) + low * last) for i in range(count)]


def bilinear(x: np.ndarray, rois: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    y = np.zeros((len(rois), x.shape[1], *size), F)
    for r in range(listed(rois)):
        x1, y1, x2, y2 = rois[r, 1:]
        down, across = spread(y1, y2, size[0], x.shape[2]), spread(x1, x2, size[1], x.shape[3])
        for c, i, j in np.ndindex(x.shape[1], *size):
            y[r, c, i, j] = sampled(x[int(rois[r, 0]), c], down[i], across[j])
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_roi_pooling(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, size in enumerate(((3, 3), (1, 1), (7, 2), (6, 6), (2, 5))):
        x = normal(number, 1 + number % 2, 2 + number, 9, 11)
        scale = (0.125, 1.0, 0.0625)[number % 3]
        rois = boxes(number, 8, len(x), 9 / scale, 11 / scale, end=5 + number)
        attributes: dict[str, Any] = {"pooled_h": size[0], "pooled_w": size[1]}
        attributes |= {"spatial_scale": scale} | ({"method": "max"} if number % 2 else {})
        given: Input = Fixed(rois) if number == 3 else rois
        many.add("ROIPooling", [x, given], maxima(x, rois, size, scale), attributes)
        rois = boxes(number, 8, len(x), 1, 1, end=5 + number)
        rois[1, 1:] = (0, 0, 1, 1)
        attributes["method"] = "bilinear"
        many.add("ROIPooling", [x, rois], bilinear(x, rois, size), attributes)
    many.check(backend, tmp_path)


def averaged(x: np.ndarray, rois: np.ndarray, outputs: int, g: int, scale: float) -> np.ndarray:
    y = np.zeros((len(rois), outputs, g, g), F)
    for r in range(listed(rois)):
        x1, y1 = (F(away(float(v))) * F(scale) for v in rois[r, 1:3])
        x2, y2 = (F(away(float(v + F(1)))) * F(scale) for v in rois[r, 3:])
        bins = [max(b - a, F(0.1)) / F(g) for a, b in ((y1, y2), (x1, x2))]
        for c, i, j in np.ndindex(outputs, g, g):
            spans = []
            for low, each, k, n in ((y1, bins[0], i, x.shape[2]), (x1, bins[1], j, x.shape[3])):
                a, b = math.floor(F(k) * each + low), math.ceil(F(k + 1) * each + low)
                spans.append(slice(min(max(a, 0), n), min(max(b, 0), n)))
            part = x[int(rois[r, 0]), (c * g + i) * g + j][spans[0], spans[1]]
            y[r, c, i, j] = part.mean() if part.size else 0
    return y


def in_parts(
    x: np.ndarray, rois: np.ndarray, outputs: int, g: int, scale: float, parts: tuple[int, int]
) -> np.ndarray:
    y = np.zeros((len(rois), outputs, g, g))
    for r in range(listed(rois)):
        x1, y1, x2, y2 = (v * F(scale) for v in rois[r, 1:])
        wide, high = (x2 - x1) / F(parts[1]), (y2 - y1) / F(parts[0])
        for i, j in np.ndindex(parts):
            down = spread(y1 + F(i) * high, y1 + F(i + 1) * high, g, x.shape[2])
            across = spread(x1 + F(j) * wide, x1 + F(j + 1) * wide, g, x.shape[3])
            for c, row, column in np.ndindex(outputs, g, g):
                plane = x[int(rois[r, 0]), c + (i * parts[1] + j) * outputs]
                y[r, c, row, column] += sampled(plane, down[row], across[column])
    return (y / math.prod(parts)).astype(F)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ps_roi_pooling(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, (outputs, group) in enumerate(((3, 2), (5, 1), (1, 3), (4, 3))):
        scale = (0.0625, 1.0)[number % 2]
        x = normal(number, 2, outputs * group * group, 9, 9)
        rois = boxes(number, 7, 2, 9 / scale, 9 / scale, end=4 + number)
        attributes: dict[str, Any] = {"output_dim": outputs, "spatial_scale": scale}
        if group > 1:
            attributes["group_size"] = group
        expected = averaged(x, rois, outputs, group, scale)
        mode = {"mode": "average"} if number % 2 else {}
        many.add("PSROIPooling", [x, rois], expected, attributes | mode)
        parts = ((3, 3), (1, 2), (2, 1), (1, 1))[number]
        x = normal(number, 2, outputs * math.prod(parts), 10, 12)
        scale = (1.0, 0.5)[number % 2]
        rois = boxes(number, 7, 2, 1, 1, end=4 + number)
        attributes |= {"mode": "bilinear", "spatial_scale": scale}
        attributes |= {"spatial_bins_y": parts[0], "spatial_bins_x": parts[1]}
        expected = in_parts(x, rois, outputs, group, scale, parts)
        many.add("PSROIPooling", [x, rois], expected, attributes)
    many.check(backend, tmp_path)


def moved(
    x: np.ndarray, rois: np.ndarray, by: np.ndarray, shape: Sequence[int], a: dict[str, Any]
) -> np.ndarray:
    """Bins moved by offsets [R, 2 * classes, parts, parts]."""
    y = np.zeros(shape, F)
    group, parts, scale = a["group_size"], by.shape[2], a["spatial_scale"]
    each = shape[1] // (by.shape[1] // 2)
    for r, c, i, j in np.ndindex(*shape):
        if r >= listed(rois):
            continue
        x1, y1, x2, y2 = (away(float(v)) for v in rois[r, 1:])
        left, top = x1 * scale - 0.5, y1 * scale - 0.5
        wide = max((x2 + 1) * scale - 0.5 - left, 0.1)
        high = max((y2 + 1) * scale - 0.5 - top, 0.1)
        own = by[r, 2 * (c // each) :, i * parts // shape[2], j * parts // shape[3]]
        left += j * wide / shape[3] + own[0] * a.get("trans_std", 1) * wide
        top += i * high / shape[2] + own[1] * a.get("trans_std", 1) * high
        channel = (c * group + i * group // shape[2]) * group + j * group // shape[3]
        plane, found = x[int(rois[r, 0]), channel], []
        for p, q in np.ndindex(a["spatial_bins_y"], a["spatial_bins_x"]):
            v = top + p * high / shape[2] / a["spatial_bins_x"]
            u = left + q * wide / shape[3] / a["spatial_bins_y"]
            if -0.5 <= v <= plane.shape[0] - 0.5 and -0.5 <= u <= plane.shape[1] - 0.5:
                inside = (min(max(s, 0), n - 1) for s, n in zip((v, u), plane.shape, strict=True))
                found.append(sampled(plane, *inside))
        y[r, c, i, j] = np.mean(found) if found else 0
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_moved_bins(backend: str, tmp_path: Path) -> None:
    many = Many(1e-4)
    x, rois = normal(0, 2, 4 * 9, 9, 11), boxes(0, 6, 2, 18, 22, end=5)
    attributes: dict[str, Any] = {
        "mode": "bilinear_deformable", "output_dim": 4, "group_size": 3, "spatial_scale": 0.5,
        "spatial_bins_x": 2, "spatial_bins_y": 3,
    }  # fmt: skip
    still = np.zeros((6, 2, 1, 1), F)
    expected = moved(x, rois, still, (6, 4, 3, 3), attributes)
    many.add("PSROIPooling", [x, rois], expected, attributes)
    attributes |= {"no_trans": 0, "trans_std": 0.1, "part_size": 2, "pooled_height": 4}
    attributes["pooled_width"] = 5
    by = normal(1, 6, 4, 2, 2)
    expected = moved(x, rois, by, (6, 4, 4, 5), attributes)
    many.add("PSROIPooling", [x, rois, by], expected, attributes)
    many.check(backend, tmp_path)


def aligned(plane: np.ndarray, box: np.ndarray, size: int, ratio: int) -> np.ndarray:
    """The mean of bilinear samples; float32 decides how many."""
    low = [box[1], box[0]]
    ends = [box[3], box[2]]
    y = np.zeros((size, size))
    steps = [max(b - a, F(1)) / F(size) for a, b in zip(low, ends, strict=True)]
    counts = [ratio or math.ceil(s) for s in steps]
    for i, j in np.ndindex(size, size):
        for p, q in np.ndindex(*counts):
            v, u = (
                float(a + F(k) * s + F(n + 0.5) * s / F(m))
                for a, s, k, n, m in zip(low, steps, (i, j), (p, q), counts, strict=True)
            )
            if -1 <= v <= plane.shape[0] and -1 <= u <= plane.shape[1]:
                inside = (min(max(s, 0), n - 1) for s, n in zip((v, u), plane.shape, strict=True))
                y[i, j] += sampled(plane, *inside)
    return y / math.prod(counts)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pyramid(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    rois = np.array(
        [[0, 0, 223, 224], [0, 0, 224, 224], [5, 9, 40, 30], [0, 0, 300, 180], [100, 40, 430, 480],
         [0, 0, 900, 900], [30, 30, 30, 90], [90, 90, 20, 100], [300, 300, 700, 640], [1, 1, 3, 3]],
        F,
    )  # fmt: skip
    for number, scales in enumerate(((4, 8, 16, 32), (8,), (2, 4, 8), (4, 8, 16, 32, 64))):
        size, ratio = 2 + number, number % 3
        levels = [normal(9 * number + s, 1, 3, 640 // s // 4, 512 // s // 4) for s in scales]
        expected = np.zeros((len(rois), 3, size, size), F)
        for r, roi in enumerate(rois):
            area = float(roi[2] - roi[0]) * float(roi[3] - roi[1])
            if area <= 0:
                continue
            level = math.floor(2 + math.log2(math.sqrt(area) / 224 + 1e-6))
            level = min(max(level, 0), len(scales) - 1)
            for c in range(3):
                box = roi * (F(1) / F(scales[level]))
                expected[r, c] = aligned(levels[level][0, c], box, size, ratio)
        attributes = {"output_size": size, "sampling_ratio": ratio}
        attributes["pyramid_scales"] = ",".join(map(str, scales))
        results = [expected, rois] if number == 2 else [expected]
        name = "ExperimentalDetectronROIFeatureExtractor"
        many.add(name, [rois, *levels], results, attributes)
    many.check(backend, tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    x, rois = normal(0, 1, 8, 6, 6), boxes(0, 3, 1, 6, 6)
    shape = [(3, 8, 2, 2)]
    good = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1}
    refuse(tmp_path, "ROIPooling", [x, rois], shape, good | {"pooled_h": 0}, "pooled")
    refuse(tmp_path, "ROIPooling", [x, rois], shape, good | {"method": "mean"}, "method")
    refuse(tmp_path, "ROIPooling", [x, rois[:, :4]], shape, good, "regions")
    refuse(tmp_path, "ROIPooling", [x[0], rois], shape, good, "wrong")
    good = {"output_dim": 2, "group_size": 2, "spatial_scale": 1}
    for attributes, match in (
        ({"output_dim": 3}, "channels"),
        ({"group_size": 0}, "groups"),
        ({"mode": "bilinear", "spatial_bins_x": 9}, "channels"),
        ({"mode": "bilinear", "spatial_bins_x": 0}, "bins"),
        ({"mode": "bilinear_deformable", "no_trans": 0}, "inputs"),
        ({"pooled_height": 3}, "pools"),
    ):
        refuse(tmp_path, "PSROIPooling", [x, rois], shape, good | attributes, match)
    good = {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": "4"}
    name = "ExperimentalDetectronROIFeatureExtractor"
    for attributes, match in (
        ({"output_size": 0}, "output_size"),
        ({"pyramid_scales": "4,8"}, "pyramid_scales"),
        ({"pyramid_scales": "0"}, "pyramid_scales"),
    ):
        refuse(tmp_path, name, [rois[:, 1:], x], shape, good | attributes, match)
    refuse(tmp_path, name, [rois, x], shape, good, "regions")
