"""Activation, ReLU, Concat and Reshape in all their types, ranks and spellings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, fixed, refuse

SHAPES = ((), (5,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4))
FUNCTIONS = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "elu": lambda v: np.where(v < 0, np.expm1(v), v),
    "relu6": lambda v: np.clip(v, 0, 6),
    "not": lambda v: (v == 0).astype(np.float64),
    "exp": np.exp,
    "relu": lambda v: np.maximum(v, 0),
}


def values(*shape: int) -> np.ndarray:
    """From -8 to 8, with zeros among them."""
    x = np.random.default_rng([3, *shape]).integers(-16, 17, shape) / 2
    return np.asarray(x, np.float32)


def expected(name: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(FUNCTIONS[name](x.astype(np.float64)), np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_activations(backend: str, tmp_path: Path) -> None:
    many = Many(tolerance=1e-6)
    for shape in SHAPES:
        x = values(*shape)
        for name in FUNCTIONS:
            many.add("Activation", [x], expected(name, x), {"type": name.title()})
        many.add("Activation", [x], np.where(x < 0, 0.5 * np.expm1(x), x).astype(np.float32),
                 {"type": "elu", "alpha": 0.5})  # fmt: skip
        many.add(
            "Activation",
            [x],
            np.asarray(np.clip(x, -1, 2.5)),
            {"type": "clamp", "min": -1, "max": 2.5},
        )
        leaky = np.where(x < 0, np.float32(0.1) * x, x)
        many.add("Activation", [x], leaky, {"type": "relu", "negative_slope": 0.1})
        many.add("ReLU", [x], leaky, {"negative_slope": 0.1})
        many.add("relu", [x], np.asarray(np.maximum(x, 0)))
    x = values(2, 3, 4, 5)
    for slopes in (np.float32([0.5]), np.float32([0.5, -1, 2])):
        wanted = np.where(x < 0, x * slopes[:, None, None], x)
        many.add("Activation", [x], wanted, {"type": "prelu"}, {"weights": slopes})
    for name in ("Sigmoid", "TanH", "ELU", "ReLU6", "Not", "Exp"):
        many.add(name, [x], expected(name.lower(), x))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_integers(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = np.int32([[-7, 0, 3], [2_000_000_011, -5, 0]])
    many.add("ReLU", [x], np.maximum(x, 0))
    many.add("Activation", [x], (x == 0).astype(np.int32), {"type": "not"})
    many.add("Concat", [x, x[:, :1], x], np.concatenate([x, x[:, :1], x], 1))
    many.add("Reshape", [x, fixed(3, -1)], x.reshape(3, 2))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_concatenations(backend: str, tmp_path: Path) -> None:
    many = Many()
    for shape in SHAPES[1:]:
        for axis in range(len(shape)):
            parts = []
            for size in (1, 3, 2):
                own = (*shape[:axis], size, *shape[axis + 1 :])
                parts.append(values(*own))
            for stated in (axis, axis - len(shape)):
                many.add("Concat", parts, np.concatenate(parts, axis), {"axis": stated})
    x = values(2, 3)
    many.add("Concat", [x, x], np.concatenate([x, x], 1))
    many.add("Concat", [x], x)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reshapes(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = values(2, 3, 4)
    for shape in ((24,), (-1,), (0, -1), (0, 0, 0), (0, 0, -1), (4, 3, 2), (1, -1, 1, 4), (0, 12),
                  (-1, 3, 0), (2, 3, 2, 2, 1)):  # fmt: skip
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
        if -1 in wanted:
            wanted[wanted.index(-1)] = -24 // math.prod(wanted)
        array = x.reshape(wanted)
        many.add("Reshape", [x], array, {"dim": shape})
        many.add("Reshape", [x, fixed(*shape)], array)
        many.add("Reshape", [x, fixed(*shape, dtype=np.int64)], array)
        many.add("Reshape", [x, fixed(*shape, dtype=np.float32)], array)
        many.add("Reshape", [x], array)  # the port says it
        many.add("Reshape", [x], array, {"dim": shape, "axis": 0, "num_axes": -1})
        many.add("Reshape", [x], array, {"dim": (7,), "axis": 1, "num_axes": 2})
    many.add("Reshape", [values(1, 1)], values(1, 1).reshape(()), {})
    many.check(backend, tmp_path)


def test_what_contradicts_itself(tmp_path: Path) -> None:
    x, y = values(2, 3), values(2, 4)
    refuse(tmp_path, "Concat", [x, y], [(4, 3)], {"axis": 0}, "Concat")
    refuse(tmp_path, "Concat", [x, x], [(2, 6)], {"axis": 2}, "axis 2 does not exist in rank 2")
    refuse(tmp_path, "Concat", [x, x], [(2, 7)], {"axis": 1}, r"the file says \[2, 7\]")
    for shape, said in (
        ((5,), r"\[2, 3\] does not fill \[5\]"),
        ((-1, -1), "more than one size open"),
        ((4, -1), "does not fill"),
        ((-2, 3), "is no shape"),
        ((2, 3, 0), "copies axis 2"),
    ):
        refuse(tmp_path, "Reshape", [x], [(6,)], {"dim": shape}, said)
        refuse(tmp_path, "Reshape", [x, fixed(*shape)], [(6,)], None, said)
    refuse(tmp_path, "Reshape", [x, fixed(2.5, 1, dtype=np.float32)], [(6,)], None, "be integers")
    refuse(tmp_path, "Reshape", [x], [(3, 3)], {}, "Reshape")
