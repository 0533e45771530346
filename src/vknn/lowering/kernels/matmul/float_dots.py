"""Dot products of float16 with sums in float32 (shaders/matmul/float_dots.glsl)."""

from __future__ import annotations

import numpy as np

from vknn.lowering.kit.problem import Problem

_NEEDS = frozenset(("float_dot", "fp16_arithmetic"))


def has_dots(problem: Problem) -> bool:
    """True where tensors are float16 and the device adds their products in pairs."""
    return problem.limits.features >= _NEEDS and problem.options.float16


def packed_for_dots(packed: np.ndarray, weights: int, block: int) -> np.ndarray:
    """Packed weights and bias, of which the first ``weights`` numbers are weights, for dots."""
    return np.concatenate([along_k(packed[:weights], block), packed[weights:]])


def along_k(packed: np.ndarray, block: int) -> np.ndarray:
    """Packed weights, [...][4 channels of k][``block`` vec4s of columns], with vec4s of k.

    So [...][4 columns of a vec4][``block``][vec4 of k].
    """
    return packed.reshape(-1, 4, block, 4).transpose(0, 3, 2, 1).ravel()
