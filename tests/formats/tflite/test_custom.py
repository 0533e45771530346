"""Custom operators that users register."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.formats.tflite.nets import run
from tests.tflite_writer import Net

import vknn
from vknn.errors import ModelFormatError, UnsupportedLayerError, VknnError
from vknn.session import Session

SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, a);
INPUT1F(1, b);
OUTPUT1F(2, y);
layout(push_constant) uniform P { int count; float by; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(a, i) + p.by * LOAD1(b, i));
}
"""
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.float32([[3, 1, 4], [1, 5, 9]])


def options(content: dict[str, Any]) -> np.ndarray:
    builder = flexbuffers.Builder()
    builder.MapFromElements(content)
    return np.frombuffer(bytes(builder.Finish()), np.uint8)


def net(content: dict[str, Any] | None = None, name: str = "Mine", dtype: str = "float32") -> Net:
    """Mine(a, b) -> c."""
    made = Net()
    made.inputs = [made.tensor("a", (2, 3), dtype), made.tensor("b", (2, 3), dtype)]
    made.outputs = [made.tensor("c", (2, 3), dtype)]
    fields = {} if content is None else {"custom_options": options(content)}
    made.add("CUSTOM", [0, 1], [2], custom_code=name, **fields)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Where a test writes its model; what it has registered is forgotten behind it."""
    yield tmp_path / "net.tflite"
    vknn.unregister_layer("tflite", "Mine")


def register(**changes: Any) -> None:
    """Mine: a + by * b."""
    given: dict[str, Any] = {
        "shape": lambda shapes, options: shapes[0],
        "compute": lambda arrays, weights, options: arrays[0] + options["by"] * arrays[1],
        "inputs": 2,
    }
    vknn.register_layer("tflite", "Mine", **(given | changes))


def test_options_as_the_file_has_them(file: Path) -> None:
    file.write_bytes(net({"by": 3, "unused": [1, 2]}).file())
    register()
    assert np.array_equal(run(file, a=A, b=B)["c"], A + 3 * B)


@pytest.mark.parametrize(("content", "by"), [({"factor": 2}, 2.0), ({}, 0.5), (None, 0.5)])
def test_named_options(file: Path, content: dict[str, Any] | None, by: float) -> None:
    file.write_bytes(net(content).file())
    register(parameters={"by": ("factor", 0.5)})
    assert np.array_equal(run(file, a=A, b=B)["c"], A + np.float32(by) * B)


@pytest.mark.device
def test_shader(file: Path) -> None:
    file.write_bytes(net({"by": 2.5}).file())
    push = lambda inputs, outputs, options: [6, float(options["by"])]  # noqa: E731
    register(shader=vknn.Shader(SHADER, push=push))
    with Session(file, device="auto") as session:
        result = session.run({"a": A, "b": B})["c"]
        assert set(session.placement.values()) == {"vulkan"}
    np.testing.assert_allclose(result, A + 2.5 * B, rtol=1e-6)


def test_quantized_integers_stay_as_they_are(file: Path) -> None:
    made = net({"by": 1}, dtype="int8")
    file.write_bytes(made.file())
    register(dtype="int8")
    a, b = A.astype(np.int8), B.astype(np.int8)
    assert np.array_equal(run(file, a=a, b=b)["c"], a + b)


def test_unknown_operators_are_named(file: Path) -> None:
    made = net(name="Yours")
    made.add("CUSTOM", [2], [made.tensor("d", (2, 3))], custom_code="Theirs")
    file.write_bytes(made.file())
    with pytest.raises(UnsupportedLayerError, match="Yours.*Theirs.*vknn.register_layer"):
        Session(file, device="numpy")


def test_options_of_another_type(file: Path) -> None:
    file.write_bytes(net({"factor": "much"}).file())
    register(parameters={"by": ("factor", 0.5)})
    with pytest.raises(VknnError, match="'factor' = 'much', which is no float"):
        run(file, a=A, b=B)


def test_another_number_of_inputs(file: Path) -> None:
    file.write_bytes(net().file())
    register(inputs=1)
    with pytest.raises(ModelFormatError, match="Mine.*takes 1 inputs, not 2"):
        Session(file, device="numpy")


def test_weights_are_inputs(file: Path) -> None:
    file.write_bytes(net().file())
    register(weights=lambda options: {"w": (1,)})
    with pytest.raises(UnsupportedLayerError, match="among its inputs"):
        run(file, a=A, b=B)


def test_names_of_vknns_own_are_taken() -> None:
    with pytest.raises(ValueError, match="Mfcc is there already"):
        vknn.register_layer("tflite", "Mfcc", shape=min, compute=max)
