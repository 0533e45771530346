"""Dot products of float16 with sums in float32 (shaders/matmul/float_dots.glsl)."""

from __future__ import annotations

import numpy as np

from vknn.lowering.kit.problem import Problem

_NEEDS = frozenset(("float_dot", "fp16_arithmetic"))


def has_dots(problem: Problem) -> bool:
    """True where tensors are float16 and the device adds their products in pairs."""
    return problem.limits.features >= _NEEDS and problem.options.float16


def packed_for_dots(packed: np.ndarray, weights: int, block: int, run: int = 4) -> np.ndarray:
    """Packed weights and bias, of which the first ``weights`` numbers are weights, in runs."""
    return np.concatenate([along_k(packed[:weights], block, run), packed[weights:]])


def along_k(packed: np.ndarray, block: int, run: int = 4) -> np.ndarray:
    """Packed weights, [...][``run`` channels of k][``block`` vec4s of columns], with runs of k.

    So [...][4 columns of a vec4][``block``][vec4 of k] where the run is one vec4, else
    [...][4 ``block`` columns][``run``].
    """
    if run == 4:
        return packed.reshape(-1, 4, block, 4).transpose(0, 3, 2, 1).ravel()
    return packed.reshape(-1, run, 4 * block).transpose(0, 2, 1).ravel()
