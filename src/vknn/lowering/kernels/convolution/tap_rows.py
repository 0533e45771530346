"""Rows of taps: kernels of first layers, padded to whole rounds of shared.comp.

With one vec4 of input channels k counts taps. Where the taps of a row, with some of weight 0 behind
them, are a power of two, a round holds whole rows, or a row whole rounds: where a lane's taps lie
follows from where the round begins, which is the same for all lanes, and no quotient is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem

#: Most taps of a row, with its padding.
_LONGEST = 64
#: By what the rounds of rows may be more than those of the taps alone.
_MORE_ROUNDS = 1.2


@dataclass(frozen=True)
class LaidTaps:
    """A convolution as shared.comp goes along its k.

    ``shape``: with the kernel that weights are packed of; ``row``: taps of a row of it where rounds
    go by rows (``TAP_ROW``), else 0, and the kernel is the convolution's own. ``whole``: no round
    of the tile reaches behind the end of the taps' channels, or of the rows.
    """

    shape: ConvShape
    row: int
    whole: bool


def counts_taps(shape: ConvShape) -> bool:
    """True where k counts taps of two axes: one vec4 of channels, as in first layers."""
    return shape.group_in <= 4 and not shape.is_pointwise and not shape.has_depth


def laid_taps(problem: Problem, shape: ConvShape, depth: int) -> LaidTaps:
    """Way of rounds of ``depth`` vec4s along k.

    Not by rows where weights are not known, columns of taps are apart in the input, or the padding
    would take too many rounds.
    """
    plain = LaidTaps(shape, 0, ceil_div(shape.group_in, 4) % depth == 0)
    height, width = shape.kernel[1:]
    row = 1 << (width - 1).bit_length()
    known = constant_weights(problem) is not None
    if not known or not counts_taps(shape) or shape.dilations[2] != 1 or row > _LONGEST:
        return plain
    rows = max(1, depth // row)
    padded = replace(shape, kernel=(1, ceil_div(height, rows) * rows, row))
    most = _MORE_ROUNDS * depth * ceil_div(shape.taps, depth)
    fits = padded.taps % depth == 0 and padded.taps <= most
    return LaidTaps(padded, row, True) if fits else plain
