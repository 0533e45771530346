"""Files that contradict themselves in ways that some readers overlook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, simple, value

from vknn import Session
from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TRUE = np.bool_(True)


def refused(message: Any, folder: Path, text: str) -> None:
    with (
        pytest.raises((ModelFormatError, ShapeError), match=text),
        Session(save(message, folder), device="numpy") as session,
    ):
        session.run({"x": X})


def test_versions_of_domains(tmp_path: Path) -> None:
    bare = simple(node("Relu", "x"))
    del bare.opset_import[:]
    refused(bare, tmp_path, "imports no version of any")
    other = simple(node("Relu", "x"))
    other.opset_import[0].domain = "com.microsoft"
    other.opset_import[0].version = 1
    refused(other, tmp_path, "imports no version of the domain 'ai.onnx'")
    implied = simple(node("QuickGelu", "x", domain="com.microsoft"))
    with Session(save(implied, tmp_path), device="numpy") as session:  # it has one version
        assert session.run({"x": X})["y"].shape == X.shape
    newer = simple(node("Gelu", "x", domain="com.microsoft"))
    newer.opset_import.add(domain="com.microsoft", version=2)
    refused(newer, tmp_path, "opset 2 of the domain com.microsoft")


def _calling(*imports: tuple[str, int], outputs: tuple[str, ...] = ("y",)) -> Any:
    called = pb.Function(name="F", domain="own", input=["x"], output=outputs)
    called.node.append(node("Relu", "x"))
    for domain, version in imports:
        called.opset_import.add(domain=domain, version=version)
    body = graph([node("F", "x", domain="own")], [value("x")], [value("y", None)])
    return model(body, functions=[called])


def test_functions(tmp_path: Path) -> None:
    refused(_calling(), tmp_path, "imports no version of the domain 'ai.onnx'")
    refused(_calling(("", 1000)), tmp_path, "opset 1000")
    refused(_calling(("", 21), outputs=("y", "y")), tmp_path, "two outputs called 'y'")
    message = _calling(("", 21))
    del message.opset_import[1]
    refused(message, tmp_path, "imports no version of the domain 'own'")


def test_types_of_inputs(tmp_path: Path) -> None:
    untyped = simple(node("Relu", "x"))
    untyped.graph.input[0].ClearField("type")
    refused(untyped, tmp_path, "states no element type")
    unknown = simple(node("Relu", "x"))
    unknown.graph.input[0].type.tensor_type.elem_type = 0
    refused(unknown, tmp_path, "states no element type")
    vast = model(graph([node("Relu", "x")], [value("x", (1 << 62, 3))], [value("y", None)]))
    refused(vast, tmp_path, "absurd size")
    for declared in (value("w", (5,)), value("w", (2, 3), DType.INT64), value("w", ())):
        body = graph([node("Add", "x w")], [value("x"), declared], [value("y", None)], {"w": X})
        refused(model(body), tmp_path, "the initializer 'w'")
    unnamed = simple(node("Relu", "x"))
    unnamed.graph.node[0].attribute.add(type=2, i=1)
    refused(unnamed, tmp_path, "attribute without a name")


def _branch(operator: str, *outputs: str, **more: Any) -> Any:
    made = [node(operator, "x", name) for name in outputs]
    return graph(made, more.get("inputs", ()), [value(name, None) for name in outputs])


@pytest.mark.parametrize(
    ("attributes", "condition"),
    [
        ({"then_branch": _branch("Relu", "a")}, TRUE),
        ({"then_branch": _branch("Relu", "a"), "else_branch": _branch("Abs", "b", "d")}, TRUE),
        ({"then_branch": _branch("Relu", "a"), "else_branch": _branch("Abs", "b")}, np.int64(1)),
        (
            {
                "then_branch": _branch("Relu", "a"),
                "else_branch": _branch("Abs", "b", inputs=[value("q")]),
            },
            TRUE,
        ),
    ],
)
def test_branches(attributes: Any, condition: Any, tmp_path: Path) -> None:
    """What is wrong with the branch that is not taken is wrong, too."""
    refused(simple(node("If", "c", **attributes), c=condition), tmp_path, "If")


def test_directions_of_a_scan(tmp_path: Path) -> None:
    body = graph([node("Relu", "e", "o")], [value("e", (3,))], [value("o", (3,))])
    made = node("Scan", "x", body=body, num_scan_inputs=1, scan_input_directions=[2])
    refused(simple(made), tmp_path, "directions")


def test_conditions_of_a_loop(tmp_path: Path) -> None:
    inputs = [value("i", (), DType.INT64), value("k", (), DType.BOOL)]
    made = [node("Identity", "k", "o"), node("Identity", "x", "z")]
    body = graph(made, inputs, [value("o", (), DType.BOOL), value("z", None)])
    loop = node("Loop", "m c", body=body)
    refused(simple(loop, m=np.int64(2), c=np.float32(1)), tmp_path, "condition")


@pytest.mark.parametrize(
    "made",
    [
        node("Split", "x", "y z"),
        node("Split", "x s", "y z", num_outputs=2),
        node("Split", "x", "y z", num_outputs=3, axis=1),
        node("Split", "x s", "y z w", axis=0),
    ],
)
def test_splits(made: Any, tmp_path: Path) -> None:
    refused(simple(made, s=np.int64([1, 1])), tmp_path, "Split")


@pytest.mark.parametrize(
    "made",
    [
        node("DequantizeLinear", "u one i"), node("DequantizeLinear", "x one"),
        node("DequantizeLinear", "u x"), node("DequantizeLinear", "u double"),
        node("QuantizeLinear", "x double"), node("QuantizeLinear", "x one z", output_dtype=3),
        node("QuantizeLinear", "x three two", axis=1),
    ],
)  # fmt: skip
def test_types_of_quantization(made: Any, tmp_path: Path) -> None:
    tensors = {
        "one": np.float32(1), "double": np.float64(1), "z": np.uint8(0), "i": np.int8(0),
        "u": np.zeros((2, 3), np.uint8), "three": np.ones(3, np.float32),
        "two": np.zeros(2, np.uint8),
    }  # fmt: skip
    refused(simple(made, **tensors), tmp_path, "Quantize|Dequantize")
