"""Tolerances of scattering, suppression, random numbers: magnitude, units (see tolerance)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.generator.numbers import GeneratorNormal, GeneratorUniform
from vknn.ops.indexing.gather import GatherND, SearchSorted
from vknn.ops.indexing.nonzero import NonZero, Unique
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.random import RandomBernoulli, RandomCategorical, RandomNormal, RandomUniform

Arrays = Sequence[np.ndarray | None]
Rule = Callable[[Any, Arrays, np.ndarray], tuple[np.ndarray, float]]


def _exact(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 0.0


def _scattered(op: ScatterND, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Magnitude of sums and products: as many roundings as there are tuples, at the most."""
    x, indices, updates = inputs
    if op.reduction not in ("add", "mul") or x is None or indices is None or updates is None:
        return _exact(op, inputs, y)
    (size,) = op.reference(np.abs(x), indices, np.abs(updates))
    return size.astype(np.float64), 4.0 * (math.sqrt(indices.size) + 8.0)


def _suppressed(op: NonMaxSuppression, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Scores are handed on, or fall with each box that stays."""
    return np.abs(y.astype(np.float64)), 64.0 * op.max_output if op.soft_sigma > 0 else 0.0


def _normal(op: RandomNormal, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Radius times cosine (Box and Muller 1958), as the op has it.

    No radius sqrt(-2 ln u) is above 6. Where the cosine is near 0 the rounding of the angle counts.
    """
    return np.full(y.shape, abs(op.mean) + 6.0 * op.deviation), 16.0


def _normal_of_generator(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """As :func:`_normal`; positions are exact."""
    return np.full(y.shape, 6.0 if y.dtype.kind == "f" else 0.0), 16.0


#: By op class.
RULES: dict[type[Op], Rule] = {
    GatherND: _exact,
    ScatterND: _scattered,
    SearchSorted: _exact,
    ReverseSequence: _exact,
    NonZero: _exact,
    Unique: _exact,
    NonMaxSuppression: _suppressed,
    RandomUniform: _exact,
    RandomBernoulli: _exact,
    RandomCategorical: _exact,
    RandomNormal: _normal,
    GeneratorUniform: _exact,
    GeneratorNormal: _normal_of_generator,
}
