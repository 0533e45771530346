"""Activations and unary functions, against their formulas in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    half_weights,
    layer,
    linear_weights,
    near,
    run,
    run_everywhere,
    weights,
)

from vknn.errors import VknnError

RNG = np.random.default_rng(14)
POINTS = np.concatenate(
    [RNG.standard_normal(40) * 2, [-300, -90, -20, -1, -0.5, -1e-6, 0, 1e-6, 0.5, 1, 20, 90, 300]]
).astype(np.float32)

Function = Callable[[np.ndarray], np.ndarray]


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), 1 - 1 / (1 + np.exp(-np.abs(x))))


ACTIVATIONS: dict[str, tuple[str, dict[str, float], Function]] = {
    "linear": ("linear", {"alpha": 1.5, "beta": -0.5}, lambda x: 1.5 * x - 0.5),
    "linear unset": ("linear", {}, lambda x: 0 * x),
    "ReLU": ("ReLU", {}, lambda x: np.maximum(x, 0)),
    "leakyReLU": ("leakyReLU", {"alpha": 0.3}, lambda x: np.where(x >= 0, x, 0.3 * x)),
    "leakyReLU unset": ("leakyReLU", {}, lambda x: np.maximum(x, 0)),
    "leakyReLU steep": ("leakyReLU", {"alpha": -2.0}, lambda x: np.where(x >= 0, x, -2 * x)),
    "thresholdedReLU": ("thresholdedReLU", {"alpha": 0.5}, lambda x: np.where(x >= 0.5, x, 0)),
    "thresholdedReLU below": (
        "thresholdedReLU",
        {"alpha": -1.0},
        lambda x: np.where(x >= -1, x, 0),
    ),
    "tanh": ("tanh", {}, np.tanh),
    "scaledTanh": (
        "scaledTanh",
        {"alpha": 1.7159, "beta": 0.6666667},
        lambda x: 1.7159 * np.tanh(2 / 3 * x),
    ),
    "sigmoid": ("sigmoid", {}, sigmoid),
    "sigmoidHard": (
        "sigmoidHard",
        {"alpha": 0.2, "beta": 0.5},
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ),
    "sigmoidHard unset": ("sigmoidHard", {}, lambda x: 0 * x),
    "ELU": ("ELU", {"alpha": 1.3}, lambda x: np.where(x >= 0, x, 1.3 * np.expm1(np.minimum(x, 0)))),
    "softsign": ("softsign", {}, lambda x: x / (1 + np.abs(x))),
    "softplus": ("softplus", {}, softplus),
}


@pytest.mark.device
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activation(name: str) -> None:
    kind, numbers, function = ACTIVATIONS[name]
    net = layer("activation", **{kind: numbers})
    y = run_everywhere(net, {"x": POINTS})["y"]
    expected = function(POINTS.astype(np.float64))
    assert y.shape == POINTS.shape
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.device
@pytest.mark.parametrize("shape", [(3, 2, 4), (2, 3, 2, 4), (2, 1, 3, 2, 4)])
def test_parameters_by_channel(shape: tuple[int, ...]) -> None:
    x, alpha, beta = (RNG.standard_normal(s).astype(np.float32) for s in (shape, 3, 3))
    a, b = alpha.reshape(3, 1, 1), beta.reshape(3, 1, 1)
    y = run_everywhere(layer("activation", PReLU={"alpha": weights(alpha)}), {"x": x})["y"]
    near(y, np.where(x >= 0, x, a * x))
    net = layer("activation", parametricSoftplus={"alpha": weights(alpha), "beta": weights(beta)})
    near(run_everywhere(net, {"x": x})["y"], a * softplus(b * x))
    single = {"alpha": weights([0.7]), "beta": weights(beta)}
    near(run(layer("activation", parametricSoftplus=single), {"x": x})["y"], 0.7 * softplus(b * x))


def test_one_parameter_for_all_channels_in_every_encoding() -> None:
    x = RNG.standard_normal((3, 2, 4)).astype(np.float32)
    for message in (weights([0.25]), half_weights([0.25]), linear_weights([1], 8, 0.25)):
        y = run(layer("activation", PReLU={"alpha": message}), {"x": x})["y"]
        near(y, np.where(x >= 0, x, 0.25 * x))
    y = run(layer("activation", PReLU={"alpha": weights([0.25])}), {"x": x[0, 0]})["y"]
    near(y, np.where(x >= 0, x, 0.25 * x)[0, 0])
    codes = np.array([1, 2, 3])
    y = run(layer("activation", PReLU={"alpha": linear_weights(codes, 4, 0.25)}), {"x": x})["y"]
    near(y, np.where(x >= 0, x, 0.25 * codes.reshape(3, 1, 1) * x))


def test_channels_in_the_rank_5_mapping() -> None:
    alpha = np.array([0.5, -1.0, 2.0], np.float32)
    net = layer("activation", PReLU={"alpha": weights(alpha)})
    y = run(net, {"x": np.array([-1, -1, 1], np.float32)}, rank5=True)["y"]
    np.testing.assert_allclose(y, np.array([-0.5, 1, 1]).reshape(1, 1, 3, 1, 1))


UNARY: dict[str, tuple[dict[str, Any], Function]] = {
    "SQRT": ({}, np.sqrt),
    "RSQRT": ({}, lambda x: 1 / np.sqrt(x + 1e-6)),
    "RSQRT epsilon": ({"epsilon": 0.5}, lambda x: 1 / np.sqrt(x + 0.5)),
    "INVERSE": ({}, lambda x: 1 / (x + 1e-6)),
    "INVERSE epsilon": ({"epsilon": 0.25}, lambda x: 1 / (x + 0.25)),
    "POWER": ({"alpha": 3.0}, lambda x: x**3),
    "POWER half": ({"alpha": 0.5}, np.sqrt),
    "POWER unset": ({}, np.ones_like),
    "POWER negative": ({"alpha": -2.0}, lambda x: x**-2.0),
    "EXP": ({}, np.exp),
    "LOG": ({}, np.log),
    "LOG epsilon": ({"epsilon": 0.25}, lambda x: np.log(x + 0.25)),
    "ABS": ({}, np.abs),
    "THRESHOLD": ({"alpha": 0.5}, lambda x: np.maximum(x, 0.5)),
    "THRESHOLD negative": ({"alpha": -0.5}, lambda x: np.maximum(x, -0.5)),
}


@pytest.mark.device
@pytest.mark.parametrize("name", list(UNARY))
def test_unary(name: str) -> None:
    params, function = UNARY[name]
    x = RNG.standard_normal((2, 3, 5)).astype(np.float32)
    signed = name.split()[0] in ("POWER", "ABS", "THRESHOLD", "EXP", "INVERSE")
    x = np.where(np.abs(x) < 0.1, np.float32(0.5), x if signed else np.abs(x))
    if name == "POWER half":
        x = np.abs(x)
    y = run_everywhere(layer("unary", type=name.split()[0], **params), {"x": x})["y"]
    near(y, function(x.astype(np.float64)))
    moved = np.abs(x)
    net = layer("unary", type=name.split()[0], scale=2.0, shift=0.75, **params)
    near(run(net, {"x": moved})["y"], function(2 * moved.astype(np.float64) + 0.75))


def test_logarithms_and_roots_where_there_are_none() -> None:
    x = np.array([-1.0, 0.0, 4.0], np.float32)
    np.testing.assert_array_equal(run(layer("unary"), {"x": x})["y"], [np.nan, 0, 2])
    y = run(layer("unary", type="LOG"), {"x": x})["y"]
    np.testing.assert_allclose(y, [np.nan, -np.inf, math.log(4)], rtol=1e-6)


@pytest.mark.device
@pytest.mark.parametrize("alpha", [0.0, 0.25, -0.5])
@pytest.mark.parametrize("beta", [6.0, 0.25, 0.0])
def test_clamped_relu(alpha: float, beta: float) -> None:
    x = np.linspace(-20, 20, 41, dtype=np.float32)
    y = run_everywhere(layer("clampedReLU", alpha=alpha, beta=beta), {"x": x})["y"]
    near(y, np.where(x >= 0, np.minimum(beta, x), np.minimum(beta, alpha * x)))


@pytest.mark.device
@pytest.mark.parametrize("mode", ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"])
def test_gelu(mode: str) -> None:
    x = np.linspace(-6, 6, 49, dtype=np.float32)
    wide = x.astype(np.float64)
    expected = {
        "EXACT": wide / 2 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in wide])),
        "TANH_APPROXIMATION": wide
        / 2
        * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))),
        "SIGMOID_APPROXIMATION": wide * sigmoid(1.702 * wide),
    }[mode]
    near(run_everywhere(layer("gelu", mode=mode), {"x": x})["y"], expected, 1e-5)


def test_contradictions() -> None:
    x = np.zeros((3, 2, 4), np.float32)
    for net in (
        layer("activation"),
        layer("activation", PReLU={}),
        layer("activation", PReLU={"alpha": weights([1, 2])}),
        layer("activation", parametricSoftplus={"alpha": weights([1])}),
    ):
        with pytest.raises(VknnError, match="activation"):
            run(net, {"x": x})
    with pytest.raises(VknnError, match="activation"):
        run(layer("activation", PReLU={"alpha": weights([1, 2, 3])}), {"x": x[0]})
