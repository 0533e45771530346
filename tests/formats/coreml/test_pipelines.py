"""Pipelines: features go from model to model by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import array_feature, layer, model, session
from tests.formats.coreml.test_classifier import net as classifier
from tests.formats.coreml.test_images import PIXELS, feature
from tests.formats.coreml.test_images import net as image_net

from vknn.errors import InputError, ModelFormatError
from vknn.formats.coreml import coreml_pb2 as pb


def copying(source: str, target: str, shape: tuple[int, ...], rank5: bool = False) -> Any:
    return model([layer("copy", [source], [target])], {source: shape}, [target], rank5=rank5)


def pipeline(
    models: list[Any], inputs: list[Any], outputs: list[Any], kind: str = "pipeline"
) -> Any:
    message = pb.Model(specificationVersion=5)
    message.description.input.extend(inputs)
    message.description.output.extend(outputs)
    inner = getattr(message, kind)
    inner.SetInParent()
    (inner if kind == "pipeline" else inner.pipeline).models.extend(models)
    return message


@pytest.mark.parametrize("kind", ["pipeline", "pipelineClassifier", "pipelineRegressor"])
def test_features_by_name(kind: str) -> None:
    stages = [copying("x", "a", (2, 3)), copying("a", "b", (2, 3)), copying("x", "c", (2, 3))]
    message = pipeline(
        stages, [array_feature("x", (2, 3))], [array_feature(n) for n in ("c", "b", "x")], kind
    )
    x = np.arange(6.0).reshape(2, 3)
    with session(message) as s:
        assert [spec.name for spec in s.outputs] == ["c", "b", "x"]
        made = s.run({"x": x})
        assert all(np.array_equal(made[n], x) for n in ("c", "b", "x"))
        with pytest.raises(InputError):
            s.run({"x": np.zeros((3, 2))})
        with pytest.raises(InputError, match="missing input 'x'"):
            s.run({})


def test_mappings_differ_from_model_to_model() -> None:
    first, second = copying("x", "a", (6,), rank5=True), copying("a", "b", (1, 6))
    first.description.output[0].type.multiArrayType.shape.extend((1, 6))
    message = pipeline([first, second], [array_feature("x", (6,))], [array_feature("b")])
    with session(message) as s:
        assert s.run({"x": np.arange(6)})["b"].tolist() == [list(range(6))]
    first.description.output[0].type.multiArrayType.ClearField("shape")
    message = pipeline([first, second], [array_feature("x", (6,))], [array_feature("b")])
    with session(message) as s, pytest.raises(InputError, match=r"\[1, 1, 6, 1, 1\]"):
        s.run({"x": np.arange(6)})


@pytest.mark.parametrize("colors", [("RGB", "RGB"), ("RGB", "BGR"), ("BGR", "GRAYSCALE")])
def test_images_between_models(colors: tuple[str, str]) -> None:
    """An image is 8-bit pixels between models, and each has its own order and scaler."""
    first, second = image_net(colors[0]), image_net(colors[1])
    scaler = first.neuralNetwork.preprocessing.add(featureName="x").scaler
    scaler.channelScale, scaler.redBias = 0.5, 200
    first.description.output[0].CopyFrom(feature(colors[0], name="y"))
    second.description.input[0].name = "y"
    second.neuralNetwork.layers[0].input[0] = "y"
    second.neuralNetwork.layers[0].output[0] = "z"
    second.description.output[0].name = "z"
    message = pipeline([first, second], [feature(colors[0])], [array_feature("z")])
    middle = PIXELS.astype(np.float64) * 0.5
    middle[..., 0] += 200
    middle = np.rint(np.clip(middle, 0, 255)).transpose(2, 0, 1)[None]
    with session(message) as s:
        if colors[1] == "GRAYSCALE":
            with pytest.raises(InputError, match="'y'"):
                s.run({"x": PIXELS})
            return
        made = s.run({"x": PIXELS})["z"]
    assert np.array_equal(made, middle[:, ::-1] if colors[1] == "BGR" else middle)


def test_a_classifier_at_the_end() -> None:
    stages = [copying("in", "x", (4,)), classifier(["a", "b", "c", "d"])]
    outputs = [array_feature("label"), array_feature("scores")]
    inner = pipeline(stages, [array_feature("in", (4,))], outputs, "pipelineClassifier")
    for message in (inner, pipeline([inner], [array_feature("in", (4,))], outputs)):
        with session(message) as s:
            made = s.run({"in": [0, 3, 1, 2]})
        assert made == {"label": "b", "scores": {"a": 0, "b": 3, "c": 1, "d": 2}}


def test_pictures_and_defaults() -> None:
    image = pytest.importorskip("PIL.Image")
    first = image_net("RGB")
    second = copying("z", "w", (2,))
    extra = array_feature("z", (2,))
    extra.type.isOptional = True
    extra.type.multiArrayType.floatDefaultValue = 1.5
    message = pipeline([first, second], [feature("RGB"), extra], [array_feature("y"),
                       array_feature("w")])  # fmt: skip
    with session(message) as s:
        made = s.run({"x": image.fromarray(PIXELS)})
        assert made["w"].tolist() == [1.5, 1.5]
        assert np.array_equal(made["y"][0], PIXELS.transpose(2, 0, 1))


def test_what_a_model_lacks() -> None:
    stages = [copying("x", "a", (2,)), copying("b", "c", (2,))]
    with pytest.raises(ModelFormatError, match=r"model 1 .* 'b'"):
        session(pipeline(stages, [array_feature("x", (2,))], [array_feature("c")]))
    with pytest.raises(ModelFormatError, match=r"'z'"):
        session(pipeline(stages[:1], [array_feature("x", (2,))], [array_feature("z")]))
    with pytest.raises(ModelFormatError, match=r"without models"):
        session(pipeline([], [array_feature("x", (2,))], [array_feature("x")]))


def test_pipelines_nested_too_deep() -> None:
    message = copying("x", "y", (2,))
    for _ in range(30):
        message = pipeline([message], [array_feature("x", (2,))], [array_feature("y")])
    with pytest.raises(ModelFormatError):
        session(message)
