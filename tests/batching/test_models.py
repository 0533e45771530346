"""Stacked models: those of files that are proven independent really are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn import Session
from vknn.batching import NotIndependentError, StackedModel, joined, parted
from vknn.engine import Engine
from vknn.errors import VknnError
from vknn.session import engine_of
from vknn.tool_inputs import complete_feeds

COUNT = 3
#: Model -> whether its examples are apart.
QUICK = {
    "tflite/hello_world_float.tflite": True,
    "tflite/hello_world_int8.tflite": True,
    "tflite/micro_speech_quantized.tflite": True,
    "tflite/trained_lstm.tflite": False,  # keeps state
    "coreml/mnistCNN.mlmodel": True,  # pictures without a batch axis, labels and dictionaries
    "coreml/house_trainable_updatable.mlmodel": True,
    "onnx/mnist_cntk.onnx": True,  # a batch of 1 by its file
    "openvino/face-detection-retail-0004.v4-fp16.xml": False,  # detections
}
DEVICE = ("tflite/hello_world_float.tflite", "coreml/mnistCNN.mlmodel")
KINDS = ("*.tflite", "*.mlmodel", "*.onnx", "*.xml", "*.param")


def examples(session: Session) -> list[dict[str, np.ndarray]]:
    return [complete_feeds(session, seed=number) for number in range(COUNT)]


def run(engine: Engine, given: Sequence[dict[str, np.ndarray]]) -> list[dict[str, Any]]:
    model = engine.model
    assert isinstance(model, StackedModel)
    return parted(model.results(engine.run(joined(given))))


def arrays(outputs: Any) -> Iterator[np.ndarray]:
    if isinstance(outputs, dict):
        for name in outputs:
            yield from arrays(outputs[name])
    else:
        yield np.asarray(outputs)


def bits(outputs: Any) -> list[bytes]:
    return [a.tobytes() if a.dtype != object else str(a).encode() for a in arrays(outputs)]


def check(session: Session) -> None:
    given = examples(session)
    engine = Engine(StackedModel(session.model, COUNT), engine_of(session).target)
    found = run(engine, given)
    for feeds, outputs in zip(given, found, strict=True):
        alone = session.run(feeds)
        assert alone.keys() == outputs.keys()
        for a, b in zip(arrays(alone), arrays(outputs), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            if a.dtype.kind in "fiu":
                scale = max(1.0, float(np.max(np.abs(a), initial=0)))
                most = 1e-4 * scale if a.dtype.kind == "f" else 1
                assert np.max(np.abs(a.astype(float) - b), initial=0) <= most
    other = run(engine, [given[2], given[1], given[0]])
    assert [bits(o) for o in other] == [bits(o) for o in reversed(found)], "places differ"
    changed = run(engine, [given[0], given[2], given[2]])
    assert bits(changed[0]) == bits(found[0]) and bits(changed[2]) == bits(found[2])
    engine.forget()


@pytest.mark.parametrize("name", QUICK)
def test_examples_of_models(name: str, shared: Path) -> None:
    with Session(shared / "models" / name, device="numpy") as session:
        if QUICK[name]:
            check(session)
            return
        with pytest.raises(NotIndependentError):
            Engine(StackedModel(session.model, COUNT), engine_of(session).target).program(
                joined(examples(session))
            )


@pytest.mark.device
@pytest.mark.parametrize("name", DEVICE)
def test_examples_of_models_on_a_device(name: str, shared: Path) -> None:
    with Session(shared / "models" / name, device="vulkan") as session:
        check(session)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_models(kind: str, shared: Path) -> None:
    apart = []
    for path in sorted((shared / "models").glob(f"*/{kind}")):
        if path.stat().st_size > 4 << 20 or "style" in path.name or "waifu" in path.name:
            continue  # these take long
        try:
            session = Session(path, device="numpy")
        except VknnError:
            continue  # OpenVINO's versions that are not read
        with session:
            try:
                StackedModel(session.model, COUNT)
                session.run(examples(session)[0])
                check(session)
            except (NotIndependentError, VknnError):
                continue
            apart.append(path.name)
    assert apart
