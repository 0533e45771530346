"""Recurrent cells and nets of them, in plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.session import Session

FUNCTIONS = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "relu": lambda v: np.maximum(v, 0),
}
DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


@dataclass
class Cell:
    """One direction of a cell as the file states it: weights (gates, S, D + S)."""

    kind: str
    inputs: int
    hidden: int
    activations: tuple[str, ...] = ()
    clip: float = 0.0
    linear_before_reset: bool = False
    seed: int = 0
    weights: np.ndarray = field(init=False)
    biases: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[self.kind]
        rng = np.random.default_rng(self.seed)
        shape = (gates, self.hidden, self.inputs + self.hidden)
        self.weights = rng.standard_normal(shape).astype(np.float32)
        rows = gates + self.linear_before_reset
        self.biases = rng.standard_normal((rows, self.hidden)).astype(np.float32)

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes of <data>."""
        given: dict[str, object] = {"hidden_size": self.hidden}
        if self.activations:
            given["activations"] = self.activations
        if self.clip:
            given["clip"] = self.clip
        if self.linear_before_reset:
            given["linear_before_reset"] = 1
        return given

    def step(self, x: np.ndarray, states: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The next states (H, and C of LSTM)."""
        f = [FUNCTIONS[a] for a in (self.activations or DEFAULTS[self.kind])]
        w = self.weights.astype(np.float64)
        b = self.biases.astype(np.float64)
        h = states[0]

        def bounded(v: np.ndarray) -> np.ndarray:
            return np.clip(v, -self.clip, self.clip) if self.clip else v

        both = np.concatenate([x, h], axis=1)
        if self.kind == "RNN":
            return [f[0](bounded(both @ w[0].T + b[0]))]
        if self.kind == "LSTM":
            forget, enter, new, out = (bounded(both @ w[k].T + b[k]) for k in range(4))
            c = f[0](forget) * states[1] + f[0](enter) * f[1](new)
            return [f[0](out) * f[2](c), c]
        z, r = (f[0](bounded(both @ w[k].T + b[k])) for k in range(2))
        wx, wh = w[2][:, : self.inputs], w[2][:, self.inputs :]
        if self.linear_before_reset:
            n = f[1](bounded(x @ wx.T + b[2] + r * (h @ wh.T + b[3])))
        else:
            n = f[1](bounded(x @ wx.T + (r * h) @ wh.T + b[2]))
        return [(1 - z) * n + z * h]

    def walk(
        self, x: np.ndarray, states: Sequence[np.ndarray], backwards: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Over x (T, N, D): H of every step, at its own place, and the last states."""
        held = [s.astype(np.float64) for s in states]
        y = np.zeros((x.shape[0], x.shape[1], self.hidden))
        for t in range(x.shape[0])[:: -1 if backwards else 1]:
            held = self.step(x[t].astype(np.float64), held)
            y[t] = held[0]
        return y, held


CELLS = (
    Cell("LSTM", 3, 4), Cell("LSTM", 5, 2, ("tanh", "relu", "sigmoid"), clip=0.3),
    Cell("GRU", 3, 4), Cell("GRU", 2, 5, ("tanh", "relu"), clip=0.4, linear_before_reset=True),
    Cell("GRU", 4, 1, linear_before_reset=True), Cell("RNN", 3, 4),
    Cell("RNN", 1, 3, ("relu",), clip=0.5),
)  # fmt: skip
BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]


def run(path: Path, feeds: dict[str, np.ndarray], backend: str = "numpy") -> dict[str, np.ndarray]:
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        results = session.run(feeds)
        if backend != "numpy":
            assert set(session.placement.values()) <= {"vulkan"}
    return results


def made(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= 1e-5


def states_of(cell: Cell, *dims: int) -> list[np.ndarray]:
    return [made(*dims, cell.hidden, seed=7 + i) for i in range(1 + (cell.kind == "LSTM"))]


def blobs(*cells: Cell) -> dict[str, np.ndarray]:
    return {
        "weights": np.stack([c.weights for c in cells]),
        "biases": np.stack([c.biases for c in cells]),
    }
