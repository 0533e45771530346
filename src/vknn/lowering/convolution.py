"""Lowering of Conv and ConvInteger: activations in C4, cheapest kernel first by estimate."""

from __future__ import annotations

from vknn.lowering.convolution_depthwise import depthwise_candidates
from vknn.lowering.convolution_general import general_candidates
from vknn.lowering.convolution_shape import conv_shape
from vknn.lowering.convolution_tiled import tiled_candidates
from vknn.lowering.convolution_winograd import winograd_candidates
from vknn.lowering.registry import Candidate, Problem, lowers
from vknn.ops.convolution import Conv, ConvInteger


@lowers(Conv, ConvInteger)
def convolution(problem: Problem) -> list[Candidate]:
    """Register tiles, depthwise rows, Winograd, and the general form that takes everything."""
    shape = conv_shape(problem)
    return [
        *tiled_candidates(problem, shape),
        *depthwise_candidates(problem, shape),
        *winograd_candidates(problem, shape),
        *general_candidates(problem, shape),
    ]
