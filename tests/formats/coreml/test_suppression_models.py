"""Models that suppress boxes as a whole: labels, malformed ones, ways to run, pipelines, files."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    array_feature,
    layer,
    model,
    number_feature,
    session,
    suppression,
    weights,
)
from tests.formats.coreml.suppressions import OUTPUTS, expected, found
from tests.formats.coreml.test_non_max_suppression import some
from tests.formats.coreml.test_pipelines import pipeline
from tests.helpers import shared_device
from tests.needs import device_is_there

import vknn
from vknn.errors import InputError, ModelFormatError
from vknn.formats.coreml import coreml_pb2 as pb


@pytest.mark.parametrize("labels", [["cat", "dog", "hen"], [7, -8, 9]])
def test_labels(labels: list[Any]) -> None:
    message = suppression(labels=labels)
    with session(message) as s:
        assert s.model.boxes is not None
        assert s.model.boxes.labels == tuple(map(str, labels))
        assert s.outputs[0].shape == (None, 3)
        with pytest.raises(InputError, match=r"'scores' .* 2 classes, .* 3 class labels"):
            s.run({"scores": np.ones((5, 2)), "boxes": np.ones((5, 4))})
    with pytest.raises(ModelFormatError, match=r"3 \(its labels\) and 2 \(input 'scores'\)"):
        session(suppression({"scores": (5, 2), "boxes": ()}, labels=labels))
    message.description.output[0].type.multiArrayType.shape.extend((5, 2))
    with pytest.raises(ModelFormatError, match="'confidence' is declared with 2 columns"):
        session(message)


NAME = "FeatureName"


@pytest.mark.parametrize(
    ("fields", "words"),
    [({f"confidenceInput{NAME}": ""}, "confidenceInputFeatureName names no feature"),
     ({f"coordinatesOutput{NAME}": ""}, "coordinatesOutputFeatureName names no feature"),
     ({f"coordinatesInput{NAME}": "z"}, "nothing takes the input 'boxes'"),
     ({f"confidenceOutput{NAME}": "z"}, "no output 'z'"),
     ({f"coordinatesInput{NAME}": "scores"}, "'scores' is to be"),
     ({f"iouThresholdInput{NAME}": "boxes"}, "cannot be 'boxes'"),
     ({"iouThreshold": -0.5}, "iouThreshold is -0.5"),
     ({"iouThreshold": math.nan}, "iouThreshold is nan"),
     ({"confidenceThreshold": math.inf}, "confidenceThreshold is inf"),
     ({"confidenceThreshold": -1e-300}, "confidenceThreshold is -1e-300")],
)  # fmt: skip
def test_malformed_models(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        session(suppression(**fields))


def test_malformed_descriptions() -> None:
    for inputs, words in (
        ({"scores": ()}, "no input 'boxes'"),
        ({"scores": (), "boxes": (), "z": ()}, "nothing takes the input 'z'"),
        ({"scores": (), "boxes": (7, 5)}, "'boxes' is declared with 5 numbers for a box"),
    ):
        with pytest.raises(ModelFormatError, match=words):
            session(suppression(inputs))
    with pytest.raises(ModelFormatError, match="nothing gives the output 'z'"):
        session(suppression(outputs=(*OUTPUTS, "z")))
    message = suppression()
    message.description.output[0].type.multiArrayType.shape.extend((2, 3, 4))
    with pytest.raises(ModelFormatError, match="two axes"):
        session(message)
    for part in ("input", "output"):
        message = suppression()
        getattr(message.description, part)[0].type.stringType.SetInParent()
        with pytest.raises(ModelFormatError, match="has to be a multi array"):
            session(message)
    message = suppression(iouThresholdInputFeatureName="iou")
    message.description.input.append(array_feature("iou", (1,)))
    with pytest.raises(ModelFormatError, match="'iou' has to be a number"):
        session(message)
    message = suppression()
    message.nonMaximumSuppression.ClearField("pickTop")
    with pytest.raises(ModelFormatError, match="no way of suppression"):
        session(message)


def test_ways_to_run() -> None:
    (boxes,), (scores,) = some(1, 19, 3)
    feeds = {"scores": scores, "boxes": boxes}
    wanted = expected(boxes, scores, 0.5, 0.25, True)
    with session(suppression(), shared_device()) as s:
        assert s.model.layer_types == ("nonMaximumSuppression",)
        s.run(feeds)
        assert set(s.placement.values()) == {"vulkan"}
        one = s.run(feeds, ["coordinates"])
        assert list(one) == ["coordinates"]
        (streamed,) = s.stream([feeds])
        kept = {n: t.numpy() for n, t in s.run(feeds, on_device=True).items()}
    for made in (one, streamed, kept):
        for name, array in made.items():
            np.testing.assert_array_equal(array, wanted[name])


def test_half_precision_counts_exactly() -> None:
    """float16 holds no whole numbers above 2048 but even ones."""
    count = 2051
    boxes = np.zeros((count, 4), np.float32)
    scores = np.full((count, 1), 0.5, np.float32)
    with session(suppression(), shared_device(), precision="fp16") as s:
        made = s.run({"scores": scores, "boxes": boxes})
    assert made["confidence"].shape == (count, 1)


def test_saved_and_read_again(tmp_path: Path) -> None:
    (boxes,), (scores,) = some(1, 19, 3)
    feeds = {"scores": scores, "boxes": boxes}
    message = suppression(labels=["a", "b", "c"])
    with session(message) as s:
        s.save(tmp_path / "again.mlmodel")
        wanted = s.run(feeds)
    assert pb.Model.FromString((tmp_path / "again.mlmodel").read_bytes()) == message
    with vknn.Session(tmp_path / "again.mlmodel", device="cpu") as s:
        np.testing.assert_array_equal(s.run(feeds)["coordinates"], wanted["coordinates"])


def network(rank5: bool) -> Any:
    """From "x" (3, 12): confidences that are its logistic, and stored boxes, by other names."""
    (boxes,), _ = some(1, 12, 3)
    if rank5:  # [1, 1, 12, 1, 3]
        layers = [
            layer("permute", ["x"], ["turned"], axis=[0, 2, 1, 3]),
            layer("activation", ["turned"], ["scores"], sigmoid={}),
            layer("loadConstant", [], ["boxes"], name="b", shape=[12, 1, 4], data=weights(boxes)),
        ]
        return model(layers, {"x": (3, 12, 1)}, ["scores", "boxes"], rank5=True)
    layers = [
        layer("transpose", ["x"], ["turned"], axes=[1, 0]),
        layer("activation", ["turned"], ["scores"], sigmoid={}),
        layer("loadConstantND", [], ["boxes"], name="b", shape=[12, 4], data=weights(boxes)),
    ]
    return model(layers, {"x": (3, 12)}, ["scores", "boxes"])


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("rank5", [False, True])
def test_pipelines(rank5: bool, depth: int) -> None:
    names = {"iouThresholdInputFeatureName": "iou", "confidenceThresholdInputFeatureName": "least"}
    last = suppression(labels=["a", "b", "c"], iouThreshold=0.3, confidenceThreshold=0.4, **names)
    shape = (3, 12, 1) if rank5 else (3, 12)
    inputs = [array_feature("x", shape), number_feature("iou"), number_feature("least")]
    outputs = [array_feature(name) for name in OUTPUTS]
    message = pipeline([network(rank5), last], inputs, outputs)
    for _ in range(depth - 1):
        message = pipeline([message], inputs, outputs)
    x = np.random.default_rng(5).standard_normal((3, 12)).astype(np.float32)
    boxes = some(1, 12, 3)[0][0]
    devices = ["numpy", shared_device()] if device_is_there() else ["numpy"]
    for device in devices:
        with session(message, device) as s:
            assert s.model.boxes is not None
            assert s.model.boxes.labels == ("a", "b", "c")
            assert s.model.layer_types[-1] == "nonMaximumSuppression"
            for own in ({}, {"iou": 0.75}, {"least": 0.6}, {"iou": 0.5, "least": 0.5}):
                made = s.run({"x": x.reshape(shape), **own})
                scores = 1 / (1 + np.exp(-x.T))
                wanted = expected(boxes, scores, own.get("iou", 0.3), own.get("least", 0.4), True)
                np.testing.assert_array_equal(made["coordinates"], wanted["coordinates"])
                np.testing.assert_allclose(made["confidence"], wanted["confidence"], rtol=1e-5)
            with pytest.raises(InputError, match="'least' is nan"):
                s.run({"x": x.reshape(shape), "least": math.nan})


def test_pipelines_whose_network_lacks_a_feature() -> None:
    outputs = [array_feature(name) for name in OUTPUTS]
    last = suppression({"others": (), "boxes": ()}, confidenceInputFeatureName="others")
    with pytest.raises(ModelFormatError, match=r"model 1 of the pipeline takes 'others'"):
        session(pipeline([network(False), last], [array_feature("x", (3, 12))], outputs))


@pytest.mark.long
def test_a_model_of_coremltools(tmp_path: Path) -> None:
    logging.disable(logging.WARNING)  # it warns that it cannot run models here
    try:
        own = pytest.importorskip("coremltools.proto.Model_pb2")
        types = pytest.importorskip("coremltools.proto.FeatureTypes_pb2")
    finally:
        logging.disable(logging.NOTSET)
    message = own.Model(specificationVersion=3)
    for part, names in (("input", ("scores", "boxes")), ("output", OUTPUTS)):
        for name, columns in zip(names, (3, 4), strict=True):
            feature = getattr(message.description, part).add(name=name)
            array = feature.type.multiArrayType
            array.dataType = types.ArrayFeatureType.DOUBLE
            for ends in ((0, -1), (columns, columns)):
                array.shapeRange.sizeRanges.add(lowerBound=ends[0], upperBound=ends[1])
    part = message.nonMaximumSuppression
    part.confidenceInputFeatureName, part.coordinatesInputFeatureName = "scores", "boxes"
    part.confidenceOutputFeatureName, part.coordinatesOutputFeatureName = OUTPUTS
    part.iouThresholdInputFeatureName = "iouThreshold"
    part.confidenceThresholdInputFeatureName = "confidenceThreshold"
    part.iouThreshold, part.confidenceThreshold = 0.45, 0.6
    part.pickTop.perClass = True
    part.stringClassLabels.vector.extend(["cat", "dog", "hen"])
    (boxes,), (scores,) = some(1, 37, 3)
    made = found(message.SerializeToString(), {"scores": scores, "boxes": boxes})
    wanted = expected(boxes, scores, 0.45, 0.6, True)
    assert len(wanted["confidence"]) > 3
    for name in OUTPUTS:
        np.testing.assert_array_equal(made[name], wanted[name])
    with session(message.SerializeToString()) as s:
        assert [spec.shape for spec in s.inputs] == [(None, 3), (None, 4), (1,), (1,)]
        assert s.model.boxes is not None
        assert s.model.boxes.labels == ("cat", "dog", "hen")
        assert s.model.defaults == {"iouThreshold": np.float32(0.45), "confidenceThreshold":
                                    np.float32(0.6)}  # fmt: skip
