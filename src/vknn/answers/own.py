"""Recipes of models whose outputs say themselves what they are."""

from __future__ import annotations

from typing import Any

from vknn.answers.decoder import Decoder
from vknn.answers.images import Pixels, Scores
from vknn.answers.labels import Labels
from vknn.answers.recipe import MOST, THRESHOLDS, Recipe
from vknn.answers.rows import DecodedBoxes, DetectionRows, PostProcess
from vknn.formats import BoxOutputs, Model

#: Last layers that give rows of label, score, left, top, right, bottom (ncnn).
_NCNN_ROWS = {"DetectionOutput", "Yolov3DetectionOutput", "YoloDetectionOutput"}
_POST_PROCESS = "TFLite_Detection_PostProcess"
#: A softmax is looked for among so many last layers; shapes and types may change behind it.
_LAST = 3


def own_recipe(model: Model) -> Recipe | None:
    """The recipe that a model's outputs state; None where they do not."""
    if model.boxes is not None:
        return _boxes(model.boxes)
    decoder = _core_ml(model) or _detector(model) or _classifier(model)
    if decoder is None:
        return None
    task = decoder.task
    threshold, most = THRESHOLDS.get(task, 0.0), MOST.get(task, 100)
    return Recipe(_name(decoder), decoder, threshold=threshold, most=most)


def _boxes(found: BoxOutputs) -> Recipe:
    """The recipe for boxes that the model has chosen itself, by a threshold of its own."""
    decoder = _centred(found.boxes, found.scores)
    labels = Labels(found.labels)
    return Recipe(_name(decoder), decoder, most=MOST[decoder.task], labels=labels)


def _centred(boxes: str, scores: str) -> DecodedBoxes:
    """The decoder of boxes as Core ML has them: centre and size in fractions of the picture."""
    return DecodedBoxes(boxes=boxes, scores=scores, format="cxcywh")


def _name(decoder: Decoder) -> str:
    return f"the model's own {decoder.task}"


def _core_ml(model: Model) -> Decoder | None:
    """Images, labels with probabilities, and the coordinates and confidences of detectors."""
    names = [spec.name for spec in model.outputs]
    if {"coordinates", "confidence"} <= set(names):
        return _centred("coordinates", "confidence")
    images = [name for name in names if name in model.output_images]
    if images:
        return Pixels(image=images[0], layout="hwc")
    classified = tuple(model.class_scores)
    return Scores(outputs=classified) if classified else None


def _detector(model: Model) -> Decoder | None:
    """Detectors' last layers of ncnn, OpenVINO and TensorFlow Lite."""
    types, outputs = set(model.layer_types), model.outputs
    if _POST_PROCESS in types and len(outputs) == 4:
        return PostProcess(outputs=tuple(spec.name for spec in outputs))
    if len(outputs) != 1:
        return None
    (spec,) = outputs
    if "DetectionOutput" in types and spec.sizes is not None and spec.sizes[-1] == 7:
        return DetectionRows(rows=spec.name, number=1, score=2, box=3, picture=0)
    if types & _NCNN_ROWS and spec.sizes is None:
        return DetectionRows(rows=spec.name)
    return None


def _classifier(model: Model) -> Decoder | None:
    """Classifiers that end with a softmax over a vector."""
    ends = any("softmax" in type.lower() for type in model.layer_types[-_LAST:])
    if not ends or len(model.outputs) != 1:
        return None
    (spec,) = model.outputs
    shape: Any = spec.sizes
    vector = shape is None or sum(side != 1 for side in shape) == 1
    return Scores(outputs=(spec.name,)) if vector else None
