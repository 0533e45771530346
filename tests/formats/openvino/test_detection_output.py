"""DetectionOutput, over its attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.detections import detections
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, refuse

from vknn.errors import ModelFormatError

CENTER, CORNER = (f"caffe.PriorBoxParameter.{t}" for t in ("CENTER_SIZE", "CORNER"))
#: Attributes of a layer and what they mean to the loops.
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"code_type": CENTER}, {"corners": False}),
    ({"code_type": CENTER.lower(), "normalized": 1}, {"corners": False}),
    ({"code_type": "center_size"}, {"corners": False}),
    ({"code_type": CENTER, "variance_encoded_in_target": 1}, {"corners": False, "encoded": True}),
    ({"variance_encoded_in_target": "true"}, {"encoded": True}),
    ({"code_type": CENTER, "share_location": 0}, {"corners": False, "shared": False}),
    ({"share_location": "false", "background_label_id": 3}, {"shared": False, "background": 3}),
    ({"background_label_id": -1}, {"background": -1}),
    ({"background_label_id": 2, "top_k": 4}, {"background": 2, "top_k": 4}),
    ({"clip_before_nms": 1}, {"clip_before": True}),
    ({"clip": 1, "code_type": CENTER}, {"clip_before": True, "corners": False}),
    ({"clip_after_nms": 1, "code_type": CENTER}, {"clip_after": True, "corners": False}),
    ({"decrease_label_id": 1}, {"mxnet": True}),
    ({"decrease_label_id": 1, "top_k": 7, "code_type": CENTER},
     {"mxnet": True, "top_k": 7, "corners": False}),
    ({"decrease_label_id": 1, "share_location": 0}, {"mxnet": True, "shared": False}),
    ({"nms_threshold": 0.1}, {"nms": 0.1}),
    ({"keep_top_k": -1, "top_k": 3}, {"keep_top_k": -1, "top_k": 3}),
    ({"keep_top_k": -1}, {"keep_top_k": -1}),
    ({"confidence_threshold": -1}, {"confidence": -1.0}),
    ({"input_width": 3, "input_height": 5}, {}),
]  # fmt: skip


class Scene:
    """Inputs of a layer for one or more images."""

    def __init__(self, number: int, images: int, classes: int, settings: dict[str, Any]) -> None:
        rng = np.random.default_rng(number)
        self.classes, self.count, self.settings = classes, 11 + number % 4, settings
        lists = 1 if settings.get("shared", True) else classes
        encoded = settings.get("encoded", False)
        many = images if number % 3 == 2 else 1
        low = rng.uniform(-0.1, 0.6, (many, self.count, 2))
        corners = np.concatenate([low, low + rng.uniform(0.1, 0.5, low.shape)], axis=2)
        parts = [corners.reshape(many, 1, -1)]
        if not encoded:
            parts.append(rng.uniform(0.1, 0.2, (many, 1, 4 * self.count)))
        scale = 0.1 if encoded else 0.7
        self.location = rng.standard_normal((images, 4 * self.count * lists)) * scale
        scores = rng.permutation(images * self.count * classes) / (images * self.count * classes)
        self.scores = scores.reshape(images, -1)
        self.priors = np.concatenate(parts, axis=1)
        for name in ("location", "scores", "priors"):
            setattr(self, name, getattr(self, name).astype(np.float32))

    def attributes(self, more: dict[str, Any]) -> dict[str, Any]:
        given = {"num_classes": self.classes, "nms_threshold": 0.45, "keep_top_k": 6}
        return {**given, "confidence_threshold": 0.3, **more}

    def expected(self, **more: Any) -> np.ndarray:
        settings = {"nms": 0.45, "keep_top_k": 6, "confidence": 0.3, **self.settings, **more}
        images, keep, top = len(self.scores), settings["keep_top_k"], settings.get("top_k", -1)
        rows = images * (keep if keep > 0 else self.classes * (top if top > 0 else self.count))
        arrays = (settings.pop("location", self.location), settings.pop("scores", self.scores))
        priors = settings.pop("priors", self.priors)
        found = detections(*arrays, priors, classes=self.classes, **settings)
        y = np.zeros((rows, 7), np.float32)
        y[: len(found)] = np.reshape(found, (-1, 7))
        if len(found) < rows:
            y[len(found), 0] = -1
        return y[None, None]


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_attributes(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, (attributes, settings) in enumerate(CASES):
        s = Scene(number, 1 + number % 3, 3 + number % 3, settings)
        if settings.get("background", 0) >= s.classes:
            s = Scene(number, 1 + number % 3, 5, settings)
        priors: Input = Fixed(s.priors) if number % 2 else s.priors
        inputs = [s.location, s.scores, priors]
        many.add("DetectionOutput", inputs, s.expected(), s.attributes(attributes))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_five_inputs(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number in range(8):
        settings: dict[str, Any] = {"corners": bool(number % 2)}
        attributes: dict[str, Any] = {"code_type": (CENTER, CORNER)[number % 2]}
        if number == 5:
            settings["shared"], attributes["share_location"] = False, 0
        if number == 6:
            settings["clip_before"], attributes["clip_before_nms"] = True, 1
        if number == 7:
            settings["mxnet"], attributes["decrease_label_id"] = True, 1
        s = Scene(number, 1 + number % 2, 3, settings)
        rng = np.random.default_rng(number)
        images = len(s.scores)
        arm = rng.uniform(0, 1, (images, 2 * s.count)).astype(np.float32)
        moves = (rng.standard_normal((images, 4 * s.count)) * 0.5).astype(np.float32)
        threshold = (0.0, 0.5, 0.9, 1.5)[number % 4]
        attributes["objectness_score"] = threshold
        scores = s.scores.reshape(images, s.count, 3).copy()
        scores[arm.reshape(images, s.count, 2)[:, :, 1] < np.float32(threshold)] = (1, 0, 0)
        expected = s.expected(scores=scores.reshape(images, -1), arm=moves)
        inputs = [s.location, s.scores, s.priors, arm, moves]
        many.add("DetectionOutput", inputs, expected, s.attributes(attributes))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_priors_in_pixels(backend: str, tmp_path: Path) -> None:
    """Five numbers each; -1 ends their list; variances stand four by four."""
    many = Many(1e-5)
    for number in range(6):
        encoded, mxnet = number % 3 == 1, number == 4
        s = Scene(number, 2, 3, {"encoded": encoded, "corners": number % 2 == 0, "mxnet": mxnet})
        size = np.array([30, 20, 30, 20], np.float32)
        boxes = s.priors[:, 0].reshape(len(s.priors), s.count, 4)
        rows = np.zeros((*s.priors.shape[:2], s.count, 5), np.float32)
        rows[:, 0, :, 1:] = boxes * size
        if not encoded:
            rows[:, 1].reshape(len(rows), -1)[:, : 4 * s.count] = s.priors[:, 1]
        scores = s.scores.reshape(2, s.count, 3).copy()
        if number > 1:
            rows[:, 0, 7, 0] = -1
            scores[:, 7:] = -1e30
        inputs = [s.location, s.scores, rows.reshape(*rows.shape[:2], -1)]
        attributes = {"normalized": 0, "input_width": 30, "input_height": 20}
        attributes["variance_encoded_in_target"] = int(encoded)
        attributes["decrease_label_id"] = int(mxnet)
        attributes["code_type"] = CORNER if number % 2 == 0 else CENTER
        expected = s.expected(scores=scores.reshape(2, -1))
        many.add("DetectionOutput", inputs, expected, s.attributes(attributes))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_five_inputs_with_priors_in_pixels(backend: str, tmp_path: Path) -> None:
    """OpenVINO divides the priors that the first stage has moved by the image's size again."""
    many = Many(1e-5)
    for number, code in enumerate((CENTER, CORNER)):
        s = Scene(number, 2, 3, {"corners": code == CORNER})
        rows = np.zeros((*s.priors.shape[:2], s.count, 5), np.float32)
        boxes = s.priors[:, 0].reshape(len(s.priors), s.count, 4)
        rows[:, 0, :, 1:] = boxes * np.array([3, 2, 3, 2], np.float32)
        rows[:, 1].reshape(len(rows), -1)[:, : 4 * s.count] = s.priors[:, 1]
        rng = np.random.default_rng(number)
        arm = np.ones((2, 2 * s.count), np.float32)
        moves = (rng.standard_normal((2, 4 * s.count)) * 0.5).astype(np.float32)
        inputs = [s.location, s.scores, rows.reshape(*rows.shape[:2], -1), arm, moves]
        attributes = {"normalized": 0, "input_width": 3, "input_height": 2, "code_type": code}
        expected = s.expected(arm=moves, arm_size=(3, 2))
        many.add("DetectionOutput", inputs, expected, s.attributes(attributes))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_scores(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, settings in enumerate(({}, {"mxnet": True})):
        s = Scene(number, 2, 5, settings)
        s.scores = (np.ceil(s.scores * 4) / 4).astype(np.float32)
        attributes = {"decrease_label_id": number}
        inputs = [s.location, s.scores, s.priors]
        many.add("DetectionOutput", inputs, s.expected(), s.attributes(attributes))
    many.check(backend, tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    s = Scene(0, 1, 3, {})
    good = [s.location, s.scores, s.priors]
    wrong: list[tuple[list[np.ndarray], dict[str, Any], str]] = [
        (good, {"num_classes": 0}, "num_classes"),
        (good, {"num_classes": 4}, "class predictions"),
        (good, {"share_location": 0}, "box logits"),
        (good, {"code_type": "CORNER_SIZE"}, "code_type"),
        (good, {"decrease_label_id": 1, "background_label_id": 1}, "decrease_label_id"),
        (good, {"normalized": 0}, "five numbers"),
        (good, {"top_k": "many"}, "top_k"),
        ([*good, s.scores], {}, "3 or 5"),
        ([*good, s.scores, s.location], {}, "first stage"),
        ([s.location, s.scores, s.priors[:, :1]], {}, "priors"),
    ]
    for inputs, attributes, match in wrong:
        given = s.attributes(attributes)
        refuse(tmp_path, "DetectionOutput", inputs, [(1, 1, 6, 7)], given, match)
    shape, given, match = [(1, 1, 6, 7)], {"num_classes": 3}, "has no nms_threshold"
    refuse(tmp_path, "DetectionOutput", good, shape, given, match, ModelFormatError)
    refuse(tmp_path, "DetectionOutput", good, [(1, 1, 42)], s.attributes({}), "output")
