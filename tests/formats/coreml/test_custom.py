"""Registered custom layers, by their class names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    half_weights,
    layer,
    linear_weights,
    model,
    run,
    run_everywhere,
    session,
    table_weights,
    weights,
)

import vknn
from vknn.errors import ShapeError, UnsupportedLayerError, VknnError
from vknn.formats.coreml import coreml_pb2 as pb

SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
INPUT1F(1, factors);
OUTPUT1F(2, y);
layout(push_constant) uniform P { int count; float gain; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(x, i) * LOAD1(factors, i % 2) * p.gain);
}
"""
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def custom(params: dict[str, Any] | None = None, arrays: list[Any] | None = None) -> Any:
    made = layer("custom", name="mine", className="Mine", weights=arrays or [])
    for key, value in (params or {}).items():
        kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
        setattr(made.custom.parameters[key], kinds[type(value)], value)
    return made


def register(**changes: Any) -> None:
    given: dict[str, Any] = {
        "shape": lambda shapes, options: shapes[0],
        "compute": lambda arrays, w, options: arrays[0] * w["factors"] * options["gain"],
        "parameters": {"gain": ("the gain", 1.0), "channels": ("n", 2)},
        "weights": lambda options: {"factors": (options["channels"],)},
    }
    vknn.register_layer("coreml", "Mine", **given | changes)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    vknn.unregister_layer("coreml", "Mine")


@pytest.mark.parametrize(
    "stored",
    [
        weights([3, -1]),
        half_weights([3, -1]),
        linear_weights([3, 1], 2, 2.0, -3.0),
        table_weights([1, 0], 1, [-1, 3]),
    ],
)
def test_parameters_and_weights(stored: Any) -> None:
    register()
    found = run(custom({"the gain": 2.0, "n": 2}, [stored]), {"x": X})["y"]
    assert found.tolist() == (X * [6, -2]).tolist()
    found = run(custom({}, [stored]), {"x": X})["y"]
    assert found.tolist() == (X * [3, -1]).tolist()


@pytest.mark.device
def test_a_shader() -> None:
    register(shader=vknn.Shader(SHADER, push=lambda i, o, options: [6, options["gain"]]))
    try:
        found = run_everywhere(custom({"the gain": 2.0}, [weights([3, -1])]), {"x": X})["y"]
    except VknnError as error:
        if "glslc" not in str(error):
            raise
        pytest.skip("no compiler for shaders")
    assert found.tolist() == (X * [6, -2]).tolist()


def test_everything_that_stands_in_the_file() -> None:
    seen: list[Any] = []

    def compute(arrays: Any, given: Any, options: Any) -> np.ndarray:
        seen.append((dict(options), {name: array.tolist() for name, array in given.items()}))
        return arrays[0]

    register(parameters=None, weights=None, compute=compute)
    params = {"a": 2, "b": 0.5, "c": "text", "d": True}
    made = custom(params, [weights([1, 2, 3]), half_weights([4]),
                           linear_weights([5, 6], 8, 1.0)])  # fmt: skip
    made.custom.parameters["e"].longValue = 1 << 40
    run(made, {"x": X})
    assert seen[0] == (params | {"e": 1 << 40}, {"0": [1, 2, 3], "1": [4], "2": [5, 6]})


def test_several_inputs_and_outputs() -> None:
    register(
        inputs=(1, None), outputs=2, parameters=None, weights=None,
        shape=lambda shapes, options: [shapes[0], shapes[-1]],
        compute=lambda arrays, w, options: [sum(arrays), arrays[-1] * 2],
    )  # fmt: skip
    made = layer("custom", ["x", "z"], ["y", "w"], className="Mine")
    found = run(made, {"x": X, "z": X + 1}, ["y", "w"])
    assert found["y"].tolist() == (2 * X + 1).tolist()
    assert found["w"].tolist() == (2 * X + 2).tolist()


def test_arrays_are_blobs() -> None:
    def shape(shapes: Any, options: Any) -> Any:
        assert shapes == [(1, 1, 3, 1, 1)]
        return shapes[0]

    register(parameters=None, weights=None, compute=lambda a, w, o: a[0], shape=shape)
    assert run(custom(), {"x": X[:, 0]}, rank5=True)["y"].shape == (1, 1, 3, 1, 1)


@pytest.mark.parametrize(
    "arrays, words",
    [([], "0 weights, not 1"), ([weights([1]), weights([1])], "2 weights, not 1"),
     ([weights([1, 2, 3])], "3 values, not 2"), ([pb.WeightParams()], "missing")],
)  # fmt: skip
def test_weights_that_do_not_fit(arrays: list[Any], words: str) -> None:
    register()
    with pytest.raises(ShapeError, match=f"'mine'.*{words}"):
        run(custom({}, arrays), {"x": X})


@pytest.mark.parametrize("params", [{"the gain": "much"}, {"n": 2.5}])
def test_parameters_of_another_type(params: dict[str, Any]) -> None:
    register()
    with pytest.raises(ShapeError, match=r"'mine'.*has the parameter"):
        run(custom(params, [weights([1, 2])]), {"x": X})


def test_classes_that_nobody_registered() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"'mine'.*'Mine' is not registered"):
        session(model([custom()], {"x": X.shape}))


def test_errors_of_the_users_functions_name_the_layer() -> None:
    register(weights=None, parameters=None, compute=lambda a, w, o: 1 / 0)
    with pytest.raises(VknnError, match="Mine"):
        run(custom(), {"x": X})
