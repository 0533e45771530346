"""Examples of Core ML layers: their parts, and functions that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.coreml_writer import layer, model, weights


@dataclass(frozen=True)
class Example:
    """A network around one layer, and arrays for its inputs. ``row``: where it stands."""

    row: str
    message: Any
    feeds: Mapping[str, np.ndarray]


def array(*shape: int) -> np.ndarray:
    """Floats, the same for the same shape."""
    return np.random.default_rng([7, *shape]).uniform(0.1, 0.9, shape).astype(np.float32)


def numbers(most: int, *shape: int) -> np.ndarray:
    """Integers below ``most``."""
    return np.random.default_rng([5, *shape]).integers(0, most, shape)


def weight(*shape: int) -> Any:
    """Floats as a file holds them."""
    return weights(array(*shape))


def one(
    kind: str,
    *arrays: Any,
    outputs: int = 1,
    rank5: bool = False,
    row: str | None = None,
    **params: Any,
) -> Example:
    """One layer; arrays are its inputs, in order."""
    feeds = {f"x{i}": np.asarray(a, np.float32) for i, a in enumerate(arrays)}
    names = [f"y{i}" for i in range(outputs)]
    made = layer(kind, list(feeds), names, **params)
    shapes = {name: array.shape for name, array in feeds.items()}
    return Example(row or kind, model([made], shapes, names, rank5=rank5), feeds)


def several(row: str, layers: Sequence[Any], **arrays: Any) -> Example:
    """Layers that make "y" of named inputs."""
    feeds = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    shapes = {name: array.shape for name, array in feeds.items()}
    return Example(row, model(layers, shapes), feeds)


def edges(*sizes: tuple[int, int]) -> dict[str, Any]:
    """Amounts before and behind each axis."""
    return {"borderAmounts": [{"startEdgeSize": a, "endEdgeSize": b} for a, b in sizes]}
