"""Convolutions by dot products of float16 with sums in float32 (shaders/matmul/float_dots.glsl)."""

from __future__ import annotations

import numpy as np

from vknn.lowering.kernels.convolution.shape import constant_weights
from vknn.lowering.kernels.quantized.requantize import is_quantized
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import Conv

_NEEDS = frozenset(("float_dot", "fp16_arithmetic"))


def takes_dots(problem: Problem) -> bool:
    """True where kernels add products of float16 in pairs: never slower, and sums are float32.

    Their weights are packed in another order, which only the host does.
    """
    able = problem.limits.features >= _NEEDS and problem.options.float16
    if not able or type(problem.op) is not Conv or is_quantized(problem):
        return False
    return constant_weights(problem) is not None


def packed_for_dots(packed: np.ndarray, weights: int, block: int) -> np.ndarray:
    """Packed weights and bias, of which the first ``weights`` numbers are weights, for dots."""
    return np.concatenate([along_k(packed[:weights], block), packed[weights:]])


def along_k(packed: np.ndarray, block: int) -> np.ndarray:
    """Packed weights, [...][4 channels of k][``block`` vec4s of columns], with vec4s of k.

    So [...][4 columns of a vec4][``block``][vec4 of k].
    """
    return packed.reshape(-1, 4, block, 4).transpose(0, 3, 2, 1).ravel()
