"""Convolutions by dot products of float16 (shaders/matmul/float_dots.glsl)."""

from __future__ import annotations

from vknn.lowering.kernels.convolution.shape import constant_weights
from vknn.lowering.kernels.matmul.float_dots import has_dots
from vknn.lowering.kernels.quantized.requantize import is_quantized
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import Conv


def takes_dots(problem: Problem) -> bool:
    """True where kernels add products of float16 in pairs: never slower, and sums are float32."""
    return has_dots(problem) and packs_along_k(problem)


def packs_along_k(problem: Problem) -> bool:
    """True where weights may lie in memory as vec4s of k: only the host packs them so."""
    if type(problem.op) is not Conv or is_quantized(problem):
        return False
    return constant_weights(problem) is not None
