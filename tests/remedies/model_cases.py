"""Remedies about models: their files, layers, graphs and inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests import onnx_writer
from tests.coreml_writer import layer, model, session
from tests.remedies.case import Case, Place, core_ml
from tests.small_model import SHAPE
from tests.tflite_writer import Net

import vknn
from vknn import tool_inputs
from vknn.formats import load
from vknn.graph import GraphBuilder, TensorType
from vknn.ops.indexing.topk import TopK
from vknn.training.coreml_targets import Targets
from vknn.training.task import CROSS_ENTROPY, Loss

FORMATS = ("ncnn", "tflite", "coreml", "openvino", "onnx")
LONE_ACTIVATION = {"data": np.ones((2, 3, 4), np.float32)}


def tflite(place: Place) -> Path:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 4))], [net.tensor("y", (1, 4))]
    net.add("RELU", net.inputs, net.outputs)
    path = place.folder / "net.tflite"
    path.write_bytes(net.file())
    return path


def onnx(place: Place) -> Path:
    return onnx_writer.save(onnx_writer.simple(onnx_writer.node("Relu", "x")), place.folder)


def run_onnx(place: Place, array: np.ndarray) -> None:
    with vknn.Session(onnx(place), device="cpu") as opened:
        opened.run({"x": array})


def shaped(place: Place) -> Path:
    """A network whose input may have any shape."""
    path = place.folder / "shaped.param"
    path.write_text("7767517\n2 2\nInput data 0 1 data\nReLU r 1 1 data y\n")
    return path


def weights_elsewhere(place: Place, *argv: object) -> Path:
    """The weights lie in another folder; the model is shown all the same, with ``argv``."""
    target = place.folder / "elsewhere" / "net.bin"
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        place.model.with_suffix(".bin").rename(target)
    place.command("info", place.model, "--device", "cpu", *argv)
    return target


def named_weights(place: Place) -> None:
    target = weights_elsewhere(place, "--random-weights")
    weights_elsewhere(place, "--weights", target)
    place.run(weights=target, device="cpu")


def custom_session(_: Place) -> None:
    made = layer("custom", "x", "y", name="mine", className="Remedied")
    with session(model([made], {"x": (4,)})) as opened:
        opened.run({"x": np.ones(4, np.float32)})


def registered(call: Callable[[], object], format: str = "coreml", **options: Any) -> None:
    """Registers a layer of the name Remedied, makes the call and forgets the layer."""
    given = {"shape": lambda s, o: s[0], "compute": lambda a, w, o: a[0]}
    vknn.register_layer(format, "Remedied", **given, **options)
    try:
        call()
    finally:
        vknn.unregister_layer(format, "Remedied")


def register_again(**options: Any) -> None:
    registered(lambda: registered(lambda: None, **options))


def two_outputs(add: str) -> Callable[[Place], object]:
    def build(_: Place) -> None:
        builder = GraphBuilder()
        getattr(builder, add)(TopK(axis=0, k=2), builder.input("x", TensorType((4,))))

    return build


def package(place: Place, suffix: str) -> Path:
    path = place.folder / f"net{suffix}"
    path.mkdir(exist_ok=True)
    return path


def inner_file(place: Place) -> Path:
    return core_ml(place, "net.mlpackage/Data/com.apple.CoreML/model.mlmodel")


def made_up(**given: Any) -> Callable[[Place], object]:
    return lambda place: vknn.verify(shaped(place), **given, device="cpu")


def too_large(**given: Any) -> Callable[[Place], object]:
    def verified(place: Place) -> None:
        place.set(tool_inputs, MAX_RANDOM=100)
        vknn.verify(place.model, device="cpu", **given)

    return verified


def target(place: Place, value: object) -> None:
    """Looks for the target of a network without class labels."""
    losses = [Loss("target", CROSS_ENTROPY, "y")]
    Targets(load(core_ml(place)), losses, ["target"]).of({"target": value}, "example 0")


CASES = [
    Case(
        "no such weights file (needed for {} of layer {}); weights= (--weights) names one that "
        "lies elsewhere",
        weights_elsewhere,
        named_weights,
    ),
    Case(
        "a Core ML model has no second file; {} is not needed",
        lambda p: load(core_ml(p), p.model),
        lambda p: load(core_ml(p)),
    ),
    Case(
        "a TensorFlow Lite model has no second file; {} is not needed",
        lambda p: load(tflite(p), p.model),
        lambda p: load(tflite(p)),
    ),
    Case(
        "the files with an ONNX model's weights are found by themselves, beside it; {} is not "
        "needed",
        lambda p: load(onnx(p), p.model),
        lambda p: load(onnx(p)),
    ),
    Case(
        "input {} takes {}, not {}; dtypes are never cast: use astype on the array",
        lambda p: run_onnx(p, np.ones((2, 3))),
        lambda p: run_onnx(p, np.ones((2, 3)).astype(np.float32)),
    ),
    Case(
        "{}: the custom layer {} is not registered",
        custom_session,
        lambda p: registered(lambda: custom_session(p)),
    ),
    Case(
        "give a file that registers such layers (--layers, vknn.register_layer)",
        custom_session,
        lambda p: registered(lambda: custom_session(p)),
    ),
    Case(
        "register_layer: no format {}; known: {}",
        lambda p: registered(lambda: None, "torch"),
        lambda p: [registered(lambda: None, format) for format in FORMATS],
        ValueError,
    ),
    Case(
        "{} layer {} is there already (replace=True takes its place)",
        lambda p: register_again(),
        lambda p: register_again(replace=True),
        ValueError,
    ),
    Case(
        "this is a Core ML package, a directory; vknn reads the single file of a neural network "
        "(.mlmodel), which may lie in it under Data/com.apple.CoreML; convert an ML program's "
        'network anew with coremltools.convert(..., convert_to="neuralnetwork")',
        lambda p: load(package(p, ".mlpackage")),
        lambda p: load(inner_file(p)),
    ),
    Case(
        "this is a Core ML model compiled for Apple's systems; vknn reads what it was compiled "
        "from (.mlmodel)",
        lambda p: load(package(p, ".mlmodelc")),
        lambda p: load(core_ml(p)),
    ),
    Case(
        "{} has {} outputs: use add_many", two_outputs("add"), two_outputs("add_many"), ValueError
    ),
    Case(
        "the model leaves the shape of input {} open: give an array or a shape (--input, --shape)",
        made_up(),
        lambda p: [
            made_up(inputs=LONE_ACTIVATION)(p),
            made_up(shapes={"data": (2, 3, 4)})(p),
        ],
    ),
    Case(
        "input {} of shape {} is too large to make up: give it",
        too_large(),
        too_large(inputs={"data": np.ones(SHAPE, np.float32)}),
    ),
    Case(
        "{} is {}, but the model has no class labels: give an index",
        lambda p: target(p, "cat"),
        lambda p: target(p, 3),
    ),
]
