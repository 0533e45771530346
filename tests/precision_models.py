"""Small networks of which 16 bits lose something at one known layer, or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.onnx_writer import graph, model, node, save, value

SIZE = 16


def _matrix(seed: int, scale: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (scale * random.standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)).astype(np.float32)


def chain(folder: Path, first: float, middle: float, last: float) -> Path:
    """Products "first", "middle" and "last" in a row, with weights of these sizes."""
    tensors = {"w1": _matrix(1, first), "w2": _matrix(2, middle), "w3": _matrix(3, last)}
    nodes = [
        node("MatMul", "x w1", "first"),
        node("MatMul", "first w2", "middle"),
        node("MatMul", "middle w3", "last"),
    ]
    body = graph(nodes, [value("x", (4, SIZE))], [value("last", (4, SIZE))], tensors)
    return save(model(body), folder)


def clean(folder: Path) -> Path:
    """A network that loses nothing but digits."""
    return chain(folder, 1.0, 1.0, 1.0)


def large_weights(folder: Path) -> Path:
    """Weights of "middle" are beyond 65,504; no other number is."""
    return chain(folder, 1e-3, 3e6, 1e-3)


def large_tensor(folder: Path) -> Path:
    """The result of "middle", which "last" reads, is beyond 65,504; no weight is."""
    return chain(folder, 1.0, 6e4, 1e-3)


def cancellation(folder: Path) -> Path:
    """The difference "d" of two inputs that are nearly equal, and a product behind it."""
    nodes = [node("Sub", "u v", "d"), node("MatMul", "d w", "y")]
    inputs = [value("u", (4, SIZE)), value("v", (4, SIZE))]
    body = graph(nodes, inputs, [value("y", (4, SIZE))], {"w": _matrix(4, 1.0)})
    return save(model(body), folder)


def near(seed: int) -> dict[str, np.ndarray]:
    """Inputs of :func:`cancellation`: they differ by a ten thousandth."""
    random = np.random.default_rng(seed)
    v = (10 + random.random((4, SIZE))).astype(np.float32)
    return {"u": v + 1e-3 * random.standard_normal(v.shape).astype(np.float32), "v": v}
