"""Models whose outputs say what they are need no recipe."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.answers.readings import answered, same_place
from tests.coreml_writer import layer, model, session, suppression
from tests.examples.test_examples import tflite_detector
from tests.formats.coreml.test_images import feature
from tests.formats.coreml.test_images import net as image_net
from tests.formats.coreml.test_pipelines import pipeline

from vknn import Session
from vknn.answers import Answer, find_recipe, look
from vknn.answers.own import own_recipe
from vknn.errors import VknnError
from vknn.formats import TensorSpec

Image = pytest.importorskip("PIL.Image")
DATA = Path(__file__).parents[2] / "examples" / "data"


def colours(answer: Answer) -> set[str]:
    """The labels, each checked: the middle of its box has this colour in the picture."""
    with Image.open(DATA / "squares.png") as file:
        picture = file.convert("RGB")
    found = set()
    for thing in answer.found:
        assert thing.box is not None
        left, top, right, bottom = thing.box
        pixel = picture.getpixel((int(left + right) // 2, int(top + bottom) // 2))
        assert ("red", "green", "blue")[int(np.argmax(pixel))] == thing.label
        found.add(thing.label)
    return found


def test_ncnn_detection_output() -> None:
    with Session(DATA / "squares.param", device="cpu") as s:
        found = find_recipe(s)
        assert found is not None
        assert found[0].name == "the model's own detection"
        options = dataclasses.replace(found[0].options, std=(255.0,))
        recipe = dataclasses.replace(found[0], options=options)
        answer = look(s, DATA / "squares.png", recipe, labels=DATA / "squares.txt")
    assert colours(answer) == {"red", "green", "blue"}


def test_tensorflow_lites_post_process(tmp_path: Path) -> None:
    path = tmp_path / "squares.tflite"
    path.write_bytes(tflite_detector().file())
    with Session(path, device="cpu") as s:
        recipe = own_recipe(s.model)
        assert recipe is not None
        assert recipe.decoder.kind == "post-process"
        options = dataclasses.replace(recipe.options, std=(255.0,))
        recipe = dataclasses.replace(recipe, options=options)
        pixels = np.asarray(Image.open(DATA / "squares.png").convert("RGB"))
        answer = look(s, pixels, recipe, labels=["red", "green", "blue"])
    assert colours(answer) == {"red", "green", "blue"}


def spec(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, shape or None, np.dtype(np.float32))


def fake(layer_types: tuple[str, ...], *outputs: TensorSpec) -> Any:
    return SimpleNamespace(
        layer_types=layer_types, outputs=outputs, output_images=frozenset(),
        class_scores=frozenset(), boxes=None,
    )  # fmt: skip


def test_openvinos_detection_output() -> None:
    recipe = own_recipe(fake(("SoftMax", "DetectionOutput"), spec("o", 1, 1, 200, 7)))
    assert recipe is not None
    rows = [(0, 2, 0.8, 0.1, 0.2, 0.3, 0.4), (-1, 0, 0, 0, 0, 0, 0)]
    found = answered(recipe, {"o": [[rows]]}, same_place(10, 10)).found
    assert [(t.number, t.box) for t in found] == [(2, pytest.approx((1, 2, 3, 4)))]


def test_core_mls_coordinates_and_confidence() -> None:
    recipe = own_recipe(fake((), spec("confidence"), spec("coordinates")))
    assert recipe is not None
    outputs = {"coordinates": [(0.5, 0.5, 0.2, 0.4)], "confidence": [(0.1, 0.9)]}
    (thing,) = answered(recipe, outputs, same_place(10, 10)).found
    assert (thing.number, thing.box) == (1, pytest.approx((4, 3, 6, 7)))
    assert answered(recipe, {"coordinates": np.zeros((0, 4)), "confidence": np.zeros((0, 2))}
                    ).found == ()  # fmt: skip


def test_core_mls_chosen_boxes() -> None:
    """Boxes that a model has chosen need no threshold, whatever their outputs are called."""
    message = suppression(outputs=("how sure", "where"), labels=["cat", "dog"],
                          confidenceThreshold=0.1, confidenceOutputFeatureName="how sure",
                          coordinatesOutputFeatureName="where")  # fmt: skip
    boxes = [(0.5, 0.5, 0.2, 0.4), (0.5, 0.5, 0.2, 0.38), (0.1, 0.9, 0.2, 0.2)]
    with session(message) as s:
        recipe = own_recipe(s.model)
        assert recipe is not None
        outputs = s.run({"scores": [(0.1, 0.3), (0.0, 0.2), (0.15, 0.1)], "boxes": boxes})
    found = answered(recipe, outputs, same_place(10, 10)).found
    assert [(t.label, t.box) for t in found] == [
        ("dog", pytest.approx((4, 3, 6, 7))), ("cat", pytest.approx((0, 8, 2, 10))),
    ]  # fmt: skip


def test_core_mls_images() -> None:
    message = image_net("RGB", height=6, width=8)
    message.description.output[0].CopyFrom(feature("RGB", 6, 8, name="y"))
    staged = pipeline([message], [feature("RGB", 6, 8)], [feature("RGB", 6, 8, name="y")])
    picture = Image.new("RGB", (8, 6), (1, 2, 3))
    for made in (message, staged):
        with session(made) as s:
            assert s.model.output_images == {"y"}
            found = look(s, picture)
        assert found.task == "image"
        assert found.image is not None
        assert found.image.shape == (6, 8, 3)
        assert found.image[0, 0].tolist() == [1, 2, 3]


def test_core_mls_classifiers() -> None:
    layers = [layer("flatten", ["x"], ["z"]), layer("slice", ["z"], ["y"], startIndex=0, endIndex=3,
                                                    stride=1, axis=0)]  # fmt: skip
    message = model(layers, {}, [], kind="neuralNetworkClassifier")
    message.description.input.append(feature("RGB", 4, 5))
    message.description.predictedFeatureName = "label"
    message.description.predictedProbabilitiesName = "scores"
    message.description.output.add(name="label").type.stringType.SetInParent()
    message.description.output.add(name="scores").type.dictionaryType.stringKeyType.SetInParent()
    message.neuralNetworkClassifier.stringClassLabels.vector.extend("abc")
    pixels = np.zeros((4, 5, 3), np.uint8)
    pixels[0, :3, 0] = (10, 30, 20)
    with session(message) as s:
        assert s.model.class_scores == {"scores"}
        found = look(s, pixels)
    assert [(t.output, t.label, t.score) for t in found.scores] == [
        ("scores", "b", 30), ("scores", "c", 20), ("scores", "a", 10),
    ]  # fmt: skip


def test_softmax_over_a_vector() -> None:
    ends = ("Conv", "SOFTMAX", "QUANTIZE")
    recipe = own_recipe(fake(ends, spec("o", 1, 1001)))
    assert recipe is not None
    assert recipe.task == "classification"
    assert own_recipe(fake(ends, spec("o", 1, 33, 21))) is None
    assert own_recipe(fake(ends, spec("o", 1, 7), spec("p", 1, 7))) is None
    assert own_recipe(fake(("SOFTMAX", "a", "b", "c"), spec("o", 1, 7))) is None


def test_outputs_that_say_nothing() -> None:
    with session(model([layer("copy")], {"x": (2, 3)})) as s:
        assert find_recipe(s) is None
        with pytest.raises(VknnError, match=r"nothing says what the outputs \(y\) .*--recipe"):
            look(s, Image.new("RGB", (3, 2)))
