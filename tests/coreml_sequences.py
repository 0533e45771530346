"""Reference of Core ML's recurrent layers for tests: activations, and walking along sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.coreml_writer import weights

RNG = np.random.default_rng(19)
T, B, N, H = 4, 2, 3, 5

Function = Callable[[np.ndarray], np.ndarray]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


#: Those that the specification allows, and the others that have parameters of their own.
ACTIVATIONS: dict[str, tuple[dict[str, Any], Function]] = {
    "linear": ({"linear": {"alpha": 0.5, "beta": 0.1}}, lambda x: 0.5 * x + 0.1),
    "sigmoid": ({"sigmoid": {}}, sigmoid),
    "tanh": ({"tanh": {}}, np.tanh),
    "ReLU": ({"ReLU": {}}, lambda x: np.maximum(x, 0)),
    "scaled": (
        {"scaledTanh": {"alpha": 1.7159, "beta": 0.6666667}},
        lambda x: 1.7159 * np.tanh(2 / 3 * x),
    ),
    "hard": (
        {"sigmoidHard": {"alpha": 0.2, "beta": 0.5}},
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ),
    # Empty messages stand for the customary parameters.
    "customary linear": ({"linear": {}}, lambda x: x),
    "customary scaled": ({"scaledTanh": {}}, np.tanh),
    "customary hard": ({"sigmoidHard": {}}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "leaky": ({"leakyReLU": {"alpha": 0.3}}, lambda x: np.where(x < 0, 0.3 * x, x)),
    "threshold": ({"thresholdedReLU": {"alpha": 0.2}}, lambda x: np.where(x >= 0.2, x, 0)),
    "ELU": ({"ELU": {"alpha": 0.7}}, lambda x: np.where(x < 0, 0.7 * np.expm1(x), x)),
    "softsign": ({"softsign": {}}, lambda x: x / (1 + np.abs(x))),
    "softplus": ({"softplus": {}}, lambda x: np.logaddexp(0, x)),
    "PReLU": (
        {"PReLU": {"alpha": weights([0.3])}},
        lambda x: np.where(x < 0, 0.3 * x, x),
    ),
}


def message(name: str) -> dict[str, Any]:
    return ACTIVATIONS[name][0]


def clipped(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -50, 50)


def walk(x: np.ndarray, reverse: bool, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Results in the order in which they are made."""
    return np.stack([step(v) for v in (x[::-1] if reverse else x)])


def blob(array: np.ndarray) -> np.ndarray:
    """[..., C] -> rank 5."""
    return array.reshape(*(1,) * (3 - array.ndim), *array.shape, 1, 1).astype(np.float32)
