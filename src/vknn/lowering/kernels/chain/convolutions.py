"""Convolutions as links of chains: what kernels take of them, and their constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vknn.lowering.kernels.chain.gate import MOST_STEPS
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights, conv_shape
from vknn.lowering.kernels.quantized.requantize import is_quantized
from vknn.ops.convolution.conv import Conv

#: Most taps of a depthwise kernel, each of which takes a lane a register.
MOST_TAPS = 25


def is_plain(link: Link) -> bool:
    """True for a convolution of floats with constant weights and a short epilogue."""
    problem = link.problem
    if type(link.op) is not Conv or is_quantized(problem) or problem.input(0).rank != 4:
        return False
    return constant_weights(problem) is not None and len(problem.epilogue.steps) <= MOST_STEPS


def pair_of(
    links: Sequence[Link], *kinds: Callable[[ConvShape], bool]
) -> tuple[ConvShape, ConvShape] | None:
    """Sizes of two convolutions of these kinds, of which only the last one's end takes a tensor."""
    if len(links) != 2 or not all(is_plain(link) for link in links):
        return None
    first, second = (conv_shape(link.problem) for link in links)
    operands = [len(link.problem.epilogue.operands) for link in links]
    fits = kinds[0](first) and kinds[1](second) and operands[0] == 0 and operands[1] <= 1
    return (first, second) if fits else None


def is_depthwise(shape: ConvShape) -> bool:
    """True for a depthwise convolution of two axes whose taps lanes have registers for."""
    return shape.is_depthwise and not shape.has_depth and shape.taps <= MOST_TAPS


def is_pointwise(shape: ConvShape) -> bool:
    """True for a convolution of one tap over all channels."""
    return shape.group == 1 and shape.is_pointwise


def constants_of(link: Link) -> tuple[np.ndarray, ...]:
    """Weights and, where there is one, bias as the graph has them."""
    return constant_weights(link.problem) or ()
