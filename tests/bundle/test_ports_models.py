"""Real models of all formats: their ported plans give what sessions do, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.bundle.porting import port_session, same_as_session
from tests.helpers import shared_device, skip_without_half

import vknn
from vknn.tool_inputs import complete_feeds

pytestmark = pytest.mark.device
#: Of each kind of port a small one, with the ports at which its plan converts.
QUICK = {
    "coreml/TinyDrawingEmbedding.mlmodel": ["input drawing"],
    "coreml/UpdatableMNIST.mlmodel": ["input image"],
    "onnx/mnist_cntk.onnx": [],
    "openvino/gru-bidirectional.v6-fp16.xml": [],
    "tflite/hello_world_int8.tflite": [
        "input serving_default_dense_input:0",
        "output StatefulPartitionedCall:0",
    ],
    "tflite/keras_lstm_mnist_ptq.tflite": [
        "input serving_default_x:0",
        "output StatefulPartitionedCall:0",
    ],
    "tflite/trained_lstm.tflite": [],
}
#: Networks that are no single segment: data decide how they go on.
LATER = {"silero_vad.onnx"}
SUFFIXES = {".param", ".mlmodel", ".onnx", ".xml", ".tflite"}


def feeds_of(session: vknn.Session, path: Path) -> dict[str, np.ndarray]:
    """The inputs that were recorded for a model, and random ones for others."""
    recorded = path.parent / f"{path.name.removesuffix(path.suffix)}.expected.npz"
    # Those of Core ML are many pictures at once.
    known = recorded.exists() and path.suffix != ".mlmodel"
    arrays = dict(np.load(recorded)) if known else {}
    found = {}
    for spec in session.inputs:
        for prefix in ("in_", "r0_in_"):
            if prefix + spec.name in arrays:
                found.setdefault(spec.name, arrays[prefix + spec.name])
    return complete_feeds(session, found)


@pytest.mark.parametrize("name", QUICK)
def test_small_models(shared: Path, name: str) -> None:
    path = shared / "models" / name
    with vknn.Session(path, device=shared_device()) as session:
        feeds = feeds_of(session, path)
        made = port_session(session, feeds)
        same_as_session(session, feeds, made)
    assert made.conversions == QUICK[name]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("format_", ["coreml", "ncnn", "onnx", "openvino", "tflite"])
def test_all_models(shared: Path, format_: str, precision: str) -> None:
    if precision == "fp16":
        skip_without_half()
    paths = [p for p in sorted((shared / "models" / format_).iterdir()) if p.suffix in SUFFIXES]
    assert len(paths) > 4
    for path in paths:
        if path.name in LATER:
            continue
        with vknn.Session(path, device=shared_device(), precision=precision) as session:
            feeds = feeds_of(session, path)
            same_as_session(session, feeds, port_session(session, feeds))
