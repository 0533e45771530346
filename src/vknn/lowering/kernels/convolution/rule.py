"""Lowering of Conv, ExactConv, ConvInteger and QuantizedConv: activations in C4."""

from __future__ import annotations

from collections.abc import Hashable

from vknn.lowering.kernels.convolution.cooperative_bytes import cooperative_byte_candidates
from vknn.lowering.kernels.convolution.depthwise import depthwise_candidates
from vknn.lowering.kernels.convolution.general import general_candidates
from vknn.lowering.kernels.convolution.grouped import grouped_candidates
from vknn.lowering.kernels.convolution.register_tiles import tiled_candidates
from vknn.lowering.kernels.convolution.row import row_candidates
from vknn.lowering.kernels.convolution.shape import conv_shape
from vknn.lowering.kernels.convolution.shared_memory import shared_candidates
from vknn.lowering.kernels.convolution.split_k import split_k_candidates
from vknn.lowering.kernels.convolution.winograd import winograd_candidates
from vknn.lowering.kernels.quantized.few_bits import WHOLE, weight_bits
from vknn.lowering.kernels.quantized.plain_sums import as_quantized, with_plain_inputs
from vknn.lowering.kernels.quantized.requantize import by_floats, has_setting, is_quantized
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.convolution.conv import Conv, ConvInteger, ExactConv
from vknn.ops.quantized.convolution import QuantizedConv

#: Most problems whose candidates are kept, since networks repeat their layers. Candidates of float
#: problems do not depend on the data.
MOST_KNOWN = 512
_known: dict[Hashable, list[Candidate]] = {}


@lowers(Conv, ExactConv, ConvInteger, QuantizedConv)
def convolution(problem: Problem) -> list[Candidate]:
    """Candidates of all convolution kernels."""
    if is_quantized(problem):
        return _candidates(problem) if has_setting(problem) else []
    if isinstance(problem.op, ConvInteger) and (quantized := as_quantized(problem)) is not None:
        return list(with_plain_inputs(quantized, _candidates(quantized)))
    constant = tuple(array is not None for array in problem.constants)
    types = (problem.inputs, problem.outputs, constant)
    key = (problem.op, types, problem.epilogue, problem.limits, problem.options)
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        found = _known[key] = _candidates(problem)
    return found


def _candidates(problem: Problem) -> list[Candidate]:
    shape = conv_shape(problem)
    if problem.epilogue.quantized is not None:
        # Only these fuse a QuantizedBinary, and only where products can be summed in floats.
        if not by_floats(problem):
            return []
        few = weight_bits(problem) < WHOLE
        matrices = [] if few else cooperative_byte_candidates(problem, shape)
        return [*tiled_candidates(problem, shape), *matrices]
    if weight_bits(problem) < WHOLE:  # whatever is faster would take more memory
        found = [
            *tiled_candidates(problem, shape),
            *depthwise_candidates(problem, shape),
            *grouped_candidates(problem, shape),
        ]
        return found or general_candidates(problem, shape)
    return [
        *tiled_candidates(problem, shape),
        *shared_candidates(problem, shape),
        *split_k_candidates(problem, shape),
        *cooperative_byte_candidates(problem, shape),
        *row_candidates(problem, shape),
        *depthwise_candidates(problem, shape),
        *grouped_candidates(problem, shape),
        *winograd_candidates(problem, shape),
        *general_candidates(problem, shape),
    ]
