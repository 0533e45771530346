"""Proposal and SimplerNMS, over their attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, refuse
from tests.proposals import caffe_anchors, proposals, tensorflow_anchors

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Attributes of Proposal and what they mean to the loops.
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"nms_thresh": 0.95}, {"nms": 0.95}),
    ({"min_size": 20}, {"least": 20}),
    ({"min_size": 14}, {"least": 14}),
    ({"post_nms_topn": 70}, {"after": 70}),
    ({"pre_nms_topn": 9}, {"before": 9}),
    ({"pre_nms_topn": 6000}, {"before": 6000}),
    ({"box_size_scale": 5.0, "box_coordinate_scale": 10}, {"wh_scale": 5, "xy_scale": 10}),
    ({"clip_before_nms": 0}, {"clip_before": False}),
    ({"clip_before_nms": "false", "clip_after_nms": 1}, {"clip_before": False, "clip_after": True}),
    ({"normalize": 1}, {"normalize": True}),
    ({"for_deformable": 1, "framework": "caffe"}, {}),
    ({"framework": "tensorflow"}, {"tensorflow": True}),
    ({"framework": "tensorflow", "normalize": 1, "clip_after_nms": 1, "min_size": 16},
     {"tensorflow": True, "normalize": True, "clip_after": True, "least": 16}),
    ({"framework": "tensorflow", "clip_before_nms": 0, "clip_after_nms": 1},
     {"tensorflow": True, "clip_before": False, "clip_after": True}),
]  # fmt: skip
RATIOS = ("0.5, 1.0, 2.0", "2.67", "1,0.33")
SCALES = ("1.0,2.0", "1.5,3.0,4.0", "2")
BASIC = {
    "base_size": 8, "feat_stride": 8, "min_size": 4, "nms_thresh": 0.6, "post_nms_topn": 12,
    "pre_nms_topn": 60,
}  # fmt: skip


def numbers(text: str) -> list[float]:
    return [float(v) for v in text.split(",")]


def maps(number: int, images: int, anchors: int, rows: int = 4, columns: int = 5) -> Arrays:
    rng = np.random.default_rng(number)
    shape = (images, 2 * anchors, rows, columns)
    scores = rng.permutation(np.arange(1, np.prod(shape) + 1)).reshape(shape) / np.prod(shape)
    deltas = rng.standard_normal((images, 4 * anchors, rows, columns)) * 0.5
    info = np.array([35, 42, 1, 1.25] if number % 2 else [33.5, 42, 1])
    return scores.astype(np.float32), deltas.astype(np.float32), info.astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_proposal(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, (attributes, settings) in enumerate(CASES):
        ratios, scales = RATIOS[number % 3], SCALES[(number + number // 3) % 3]
        make = tensorflow_anchors if settings.get("tensorflow") else caffe_anchors
        anchors = make(8, numbers(ratios), numbers(scales))
        scores, deltas, info = maps(number, 1 + number % 2, len(anchors))
        given = {"stride": 8, "least": 4, "nms": 0.6, "after": 12, "before": 60, **settings}
        boxes, found = (
            y.astype(np.float32) for y in proposals(scores, deltas, info.tolist(), anchors, **given)
        )
        image: Input = info if number % 4 == 0 else info[None]
        inputs = [scores, deltas, Fixed(image) if number % 5 == 0 else image]
        both = [boxes, found] if number % 3 == 1 else [boxes]
        many.add(
            "Proposal", inputs, both, {**BASIC, "ratio": ratios, "scale": scales, **attributes}
        )
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_simpler_nms(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    settings = ((16, 0.7, 200, 6), (5, 0.3, 30, 40), (30, 0.7, 90, 20), (16, 0.9, 1000, 100))
    for number, (least, nms, before, after) in enumerate(settings):
        anchors = caffe_anchors(16, (0.5, 1, 2), (1, 2, 3))
        scores, deltas, info = maps(2 * number, 1, 9)
        if number == 3:  # equal scores, and some that do not count
            scores = np.ceil(scores * 4 - 1).astype(np.float32)
        info = np.array([66.5, 80.9, 1.6], np.float32)
        given = {"stride": 16, "least": least, "nms": nms, "before": before, "after": after}
        boxes, _ = proposals(scores, deltas, info.tolist(), anchors, simpler=True, **given)
        attributes = {
            "iou_threshold": nms, "min_bbox_size": least, "feat_stride": 16,
            "pre_nms_topn": before, "post_nms_topn": after, "scale": "1,2,3", "cls_threshold": 0.5,
        }  # fmt: skip
        inputs = [scores, deltas] if number % 2 else [deltas, scores]
        many.add("SimplerNMS", [*inputs, info[None]], boxes.astype(np.float32), attributes)
    many.check(backend, tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    scores, deltas, info = maps(0, 1, 2)
    good = {**BASIC, "ratio": "1", "scale": "1,2"}
    inputs = [scores, deltas, info]
    for name, value in (
        ("ratio", ""),
        ("scale", "0,1"),
        ("ratio", "1,2"),
        ("pre_nms_topn", 0),
        ("post_nms_topn", -1),
        ("feat_stride", 0),
        ("box_size_scale", 0),
        ("base_size", 0),
        ("nms_thresh", "x"),
    ):
        refuse(tmp_path, "Proposal", inputs, [(12, 5)], {**good, name: value}, "wrong")
    refuse(tmp_path, "Proposal", [scores, deltas, info[:2]], [(12, 5)], good, "info")
    refuse(tmp_path, "Proposal", inputs, [(11, 5)], good, "12 boxes")
    shapes = [(2, 5)]
    simple = {"iou_threshold": 0.7, "min_bbox_size": 1, "feat_stride": 16, "scale": "1,2,3"}
    simple |= {"pre_nms_topn": 5, "post_nms_topn": 2}
    refuse(tmp_path, "SimplerNMS", inputs, shapes, simple, "anchors")
    two = maps(0, 2, 9)
    refuse(tmp_path, "SimplerNMS", list(two), shapes, simple, "more images")
