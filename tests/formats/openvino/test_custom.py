"""Registered layers in OpenVINO nets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.openvino_writer import Net

import vknn
from vknn.errors import ModelFormatError, ShapeError, UnsupportedLayerError
from vknn.session import Session

SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, a);
INPUT1F(1, w);
OUTPUT1F(2, y);
layout(push_constant) uniform P { int count; float by; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(a, i) * LOAD1(w, i % 3) * p.by);
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.float32([1, 2, 4])


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    vknn.unregister_layer("openvino", "Mine")


def register(**changes: Any) -> None:
    given: dict[str, Any] = {
        "shape": lambda shapes, options: shapes[0],
        "compute": lambda arrays, weights, options: arrays[0] * weights["weights"] * options["by"],
        "parameters": {"by": ("factor|old_factor", 1.0)},
        "weights": lambda options: {"weights": (3,)},
    }
    vknn.register_layer("openvino", "Mine", **given | changes)


def save(folder: Path, attributes: dict[str, Any], name: str = "Mine") -> Path:
    net = Net()
    x = net.input("x", (2, 3))
    net.layer(name, [x], [(2, 3)], attributes, {"weights": W.astype(np.float16)}, name="y")
    return net.save(folder)


@pytest.mark.device
@pytest.mark.parametrize("name", ["Mine", "MINE"])
def test_on_both_backends(name: str, tmp_path: Path) -> None:
    push = lambda inputs, outputs, options: [6, options["by"]]  # noqa: E731
    register(shader=vknn.Shader(SHADER, push=push))
    path = save(tmp_path, {"factor": 3}, name)
    for device in ("numpy", shared_device()):
        with Session(path, device=device) as session:
            assert np.array_equal(session.run({"x": X})["y"], X * W * 3)
            side = "host" if device == "numpy" else "vulkan"
            assert set(session.placement.values()) == {side}


def test_attributes_and_blobs_as_they_are(tmp_path: Path) -> None:
    seen: list[Any] = []

    def compute(arrays: Any, weights: Any, options: Any) -> np.ndarray:
        seen.append((options, {n: (w.dtype.name, w.tolist()) for n, w in weights.items()}))
        return np.asarray(arrays[0])

    register(compute=compute, parameters=None, weights=None)
    with Session(save(tmp_path, {"list": (1, 2), "word": "a b"}), device="numpy") as session:
        session.run({"x": X})
    options = {"list": "1,2", "word": "a b"}
    assert seen[-1] == (options, {"weights": ("float32", [1.0, 2.0, 4.0])})


def test_typed_parameters(tmp_path: Path) -> None:
    seen: list[Any] = []
    parameters = {
        "i": ("i", 1), "f": ("f", 1.0), "b": ("b", False), "t": ("t", "no"), "l": ("l", (1, 2)),
        "m": ("m", (1.0,)), "gone": ("gone", (3,)),
    }  # fmt: skip

    def compute(arrays: Any, weights: Any, options: Any) -> np.ndarray:
        seen.append(options)
        return np.asarray(arrays[0])

    register(compute=compute, parameters=parameters)
    given = {"i": 5, "f": 2, "b": "true", "t": "yes", "l": "3,4", "m": "1,2.5"}
    with Session(save(tmp_path, given), device="numpy") as session:
        session.run({"x": X})
    assert seen[-1] == {
        "i": 5, "f": 2.0, "b": True, "t": "yes", "l": (3, 4), "m": (1.0, 2.5), "gone": (3,)
    }  # fmt: skip
    path = save(tmp_path, {**given, "i": "x"})
    with Session(path, device="numpy") as session, pytest.raises(ShapeError, match="i is 'x'"):
        session.run({"x": X})


def test_what_is_wrong(tmp_path: Path) -> None:
    path = save(tmp_path, {})
    with pytest.raises(UnsupportedLayerError, match="Mine"):
        Session(path, device="numpy")
    register(weights=lambda options: {"weights": (4,)})
    with Session(path, device="numpy") as session, pytest.raises(ShapeError, match="not 4"):
        session.run({"x": X})
    register(replace=True, inputs=2)
    with pytest.raises(ModelFormatError, match="takes 2 inputs, not 1"):
        Session(path, device="numpy")
    with pytest.raises(ValueError, match="there already"):
        vknn.register_layer(
            "openvino", "relu", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0]
        )
