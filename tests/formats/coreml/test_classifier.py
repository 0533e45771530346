"""Classifiers: a label and the score of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import array_feature, layer, model, session

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.graph import DType

SCORES = np.array([0.25, -1.0, 2.5, 2.5], np.float32)


def net(labels: list[Any], layer_name: str = "", rank5: bool = False) -> Any:
    message = model(
        [layer("copy")], {"x": (len(SCORES),)}, [], rank5=rank5, kind="neuralNetworkClassifier"
    )
    whole = isinstance(labels[0], int)
    described = message.description
    described.predictedFeatureName = "label"
    described.predictedProbabilitiesName = "scores"
    label = described.output.add(name="label")
    getattr(label.type, "int64Type" if whole else "stringType").SetInParent()
    described.output.add(name="scores").type.dictionaryType.stringKeyType.SetInParent()
    part = message.neuralNetworkClassifier
    getattr(part, "int64ClassLabels" if whole else "stringClassLabels").vector.extend(labels)
    part.labelProbabilityLayerName = layer_name
    return message


@pytest.mark.parametrize("rank5", [False, True])
@pytest.mark.parametrize("labels", [["a", "b", "c", "d"], [7, -1, 1 << 40, 3]])
@pytest.mark.parametrize("named", ["", "y", "copy"])
def test_label_and_scores(labels: list[Any], named: str, rank5: bool) -> None:
    with session(net(labels, named, rank5)) as s:
        made = s.run({"x": SCORES})
        assert [spec.name for spec in s.outputs] == ["label", "scores"]
        wanted = DType.INT64 if isinstance(labels[0], int) else DType.STRING
        assert s.outputs[0].dtype == wanted
    assert made == {"label": labels[2], "scores": dict(zip(labels, SCORES.tolist(), strict=True))}
    assert type(made["label"]) is type(labels[0])
    assert all(type(score) is float for score in made["scores"].values())


def test_the_label_alone() -> None:
    message = net(["a", "b", "c", "d"])
    message.description.predictedProbabilitiesName = ""
    del message.description.output[1]
    with session(message) as s:
        assert s.run({"x": SCORES}) == {"label": "c"}


def test_names_that_only_the_types_tell() -> None:
    message = net(["a", "b", "c", "d"])
    message.description.predictedProbabilitiesName = ""
    message.description.predictedFeatureName = ""
    with session(message) as s:
        assert set(s.run({"x": SCORES})) == {"label", "scores"}


def test_other_outputs_beside() -> None:
    message = net(["a", "b", "c", "d"])
    message.description.output.append(array_feature("y", (2, 2)))
    with session(message) as s:
        made = s.run({"x": SCORES})
    assert made["y"].tolist() == SCORES.reshape(2, 2).tolist()
    assert made["label"] == "c"


def test_scores_named_like_their_blob() -> None:
    message = net(["a", "b", "c", "d"], "y")
    message.description.predictedProbabilitiesName = "y"
    message.description.output[1].name = "y"
    with session(message) as s:
        made = s.run({"x": SCORES})
    assert made["label"] == "c"
    assert made["y"]["c"] == 2.5


def test_scores_and_labels_must_match() -> None:
    with session(net(["a", "b", "c"])) as s, pytest.raises(ShapeError, match=r"4 scores for 3"):
        s.run({"x": SCORES})


def test_labels_must_be_there() -> None:
    message = net(["a"])
    message.neuralNetworkClassifier.ClearField("stringClassLabels")
    with pytest.raises(ModelFormatError, match=r"class label"):
        session(message)
    message.neuralNetworkClassifier.stringClassLabels.SetInParent()
    with pytest.raises(ModelFormatError, match=r"class label"):
        session(message)


def test_scores_must_be_there() -> None:
    with pytest.raises(ModelFormatError, match=r"no layer makes 'nothing'"):
        session(net(["a", "b", "c", "d"], "nothing"))
    message = net(["a", "b", "c", "d"])
    message.neuralNetworkClassifier.layers.append(
        pb.NeuralNetworkLayer(name="last", input=["x"], branch=pb.BranchLayerParams())
    )
    with pytest.raises(ModelFormatError):
        session(message)
