"""YOLO detection: box by box in Python, and against ncnn where its wheel is installed."""

from __future__ import annotations

import dataclasses
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, refuses
from vknn.graph import TensorType
from vknn.ops.detection.yolo import YoloDetection

YOLO = YoloDetection(
    num_class=3,
    num_box=2,
    confidence_threshold=0.3,
    nms_threshold=0.45,
    biases=(10, 14, 23, 27, 37, 58, 81, 82),
    mask=(2, 3, 0, 1),
    anchors_scale=(33.6, 16.8),
)


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def boxes(op: YoloDetection, number: int, x: np.ndarray) -> list[list[float]]:
    rows, (height, width) = [], x.shape[2:]
    for k, i, j in np.ndindex(op.num_box, height, width):
        first = k * (5 + op.num_class)
        cx, cy, w, h, objectness, *scores = (
            float(v) for v in x[0, first:, i, j][: 5 + op.num_class]
        )
        best = max(scores)
        confidence = 1 / (1 + math.exp(-objectness) * (1 + math.exp(-best)))
        if op.softmax:
            share = math.exp(best) / sum(math.exp(s) for s in scores)
            confidence = logistic(objectness) * share
        anchor = op.mask[number * op.num_box + k]
        bw = math.exp(w) * op.biases[2 * anchor] / int(op.anchors_scale[number] * width)
        bh = math.exp(h) * op.biases[2 * anchor + 1] / int(op.anchors_scale[number] * height)
        cx, cy = (j + logistic(cx)) / width, (i + logistic(cy)) / height
        corners = [cx - bw / 2, cy - bh / 2, cx + bw / 2, cy + bh / 2]
        rows.append([scores.index(best) + 1, confidence, *corners])
    return rows


def overlap(a: list[float], b: list[float]) -> float:
    w = min(a[4], b[4]) - max(a[2], b[2])
    h = min(a[5], b[5]) - max(a[3], b[3])
    shared = w * h if w > 0 and h > 0 else 0
    areas = [(r[4] - r[2]) * (r[5] - r[3]) for r in (a, b)]
    return shared / (sum(areas) - shared)


def naive(op: YoloDetection, *maps: np.ndarray) -> np.ndarray:
    rows = [r for number, x in enumerate(maps) for r in boxes(op, number, x)]
    rows = [r for r in rows if r[1] >= op.confidence_threshold]
    kept: list[list[float]] = []
    for row in sorted(rows, key=lambda r: -r[1]):
        if all(overlap(row, other) <= op.nms_threshold for other in kept):
            kept.append(row)
    return np.array(kept, np.float32).reshape(1, -1, 6)


MAPS = (data(1, 16, 3, 5), data(1, 16, 7, 4, seed=1))


@pytest.mark.parametrize(
    "op",
    [
        YOLO,
        dataclasses.replace(YOLO, confidence_threshold=0.0),
        dataclasses.replace(YOLO, nms_threshold=0.05),
        dataclasses.replace(YOLO, nms_threshold=2.0),
        dataclasses.replace(YOLO, confidence_threshold=0.999),
        dataclasses.replace(YOLO, softmax=True),
    ],
)
def test_detection(op: YoloDetection) -> None:
    check(op, *MAPS, expected=naive(op, *MAPS))
    check(op, MAPS[0], expected=naive(op, MAPS[0]))


def test_nothing_found_gives_no_rows() -> None:
    (y,) = dataclasses.replace(YOLO, confidence_threshold=1.5).reference(*MAPS)
    assert y.shape == (1, 0, 6)
    assert y.dtype == np.float32


def test_equal_confidences_keep_their_order() -> None:
    x = np.zeros((1, 16, 2, 2), np.float32)
    (y,) = dataclasses.replace(YOLO, nms_threshold=2.0).reference(x)
    assert np.allclose(y[0, :, 1], 1 / 3)
    assert y[0, :4, 2:].tolist() == sorted(y[0, :4, 2:].tolist(), key=lambda r: (r[1], r[0]))


def test_bound_counts_every_box() -> None:
    types = [TensorType.of(m) for m in MAPS]
    assert YOLO.infer(*types) == (f32(1, None, 6),)
    assert YOLO.bound(*types) == (f32(1, 2 * 15 + 2 * 28, 6),)


@pytest.mark.parametrize(
    ("changes", "types", "words"),
    [
        ({}, [f32(1, 15, 3, 5)], r"should be \[1, 16, h, w\]"),
        ({}, [f32(2, 16, 3, 5)], "should be"),
        ({}, [f32(16, 3, 5)], "should be"),
        ({}, [i8(1, 16, 3, 5)], "wants float32"),
        ({}, [], "no feature maps"),
        ({}, [f32(1, 16, 1, 1)] * 3, "more masks or scales"),
        ({"anchors_scale": (1.0,)}, [f32(1, 16, 1, 1)] * 2, "more masks or scales"),
        ({"mask": (0, 4)}, [f32(1, 16, 1, 1)], "exceeds 8 biases"),
        ({"mask": (0, -1)}, [f32(1, 16, 1, 1)], "exceeds 8 biases"),
        ({"num_box": 0}, [f32(1, 16, 1, 1)], "no boxes"),
        ({"anchors_scale": (math.inf, 1.0)}, [f32(1, 16, 1, 1)], "scales .* not below 1048576"),
        ({"anchors_scale": (math.nan, 1.0)}, [f32(1, 16, 1, 1)], "scales .* not below 1048576"),
    ],
)
def test_infer_refuses(changes: dict, types: list[TensorType], words: str) -> None:
    refuses(dataclasses.replace(YOLO, **changes), *types, match=words)


def test_ncnn_agrees(tmp_path: Path) -> None:
    ncnn = pytest.importorskip("ncnn")
    # ncnn reads the mask as floats but parses whole numbers as integers: its files hold float bits.
    mask = ",".join(str(struct.unpack("<i", struct.pack("<f", m))[0]) for m in YOLO.mask)
    lines = [
        "7767517",
        "3 3",
        "Input a 0 1 a",
        "Input b 0 1 b",
        "Yolov3DetectionOutput out 2 1 a b out 0=3 1=2 2=0.3 3=0.45 "
        f"-23304=8,{','.join(map(str, YOLO.biases))} -23305=4,{mask} -23306=2,33.6,16.8",
    ]
    (tmp_path / "y.param").write_text("\n".join(lines) + "\n")
    (tmp_path / "y.bin").touch()
    net = ncnn.Net()
    assert net.load_param(str(tmp_path / "y.param")) == 0
    assert net.load_model(str(tmp_path / "y.bin")) == 0
    extractor = net.create_extractor()
    for name, x in zip("ab", MAPS, strict=True):
        # The clone has ncnn's padding between channels, which the layer takes for granted.
        extractor.input(name, ncnn.Mat(x[0]).clone())
    _, found = extractor.extract("out")
    expected = np.array(found)
    (y,) = YOLO.reference(*MAPS)
    assert y[0].shape == expected.shape
    np.testing.assert_allclose(y[0], expected, rtol=0, atol=1e-5)
