"""Convolutions padded to whole rounds of shared.comp: rows of taps, and channels.

With one vec4 of input channels k counts taps. Where the taps of a row, with some of weight 0 behind
them, are a power of two, a round holds whole rows, or a row whole rounds: where a lane's taps lie
follows from where the round begins, which is the same for all lanes, and no quotient is taken.
Elsewhere taps may have channels of weight 0 behind their own.
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

    ``shape``: with the kernel and the channels that weights are packed of; ``row``: taps of a row
    of the kernel where rounds go by rows (``TAP_ROW``), else 0. ``whole``: no round reaches behind
    the end of the taps' channels, or of the rows. ``rest``: the last round of a tap has channels
    that are padding (``REST``).
    """

    shape: ConvShape
    row: int
    whole: bool
    rest: bool = False


def counts_taps(shape: ConvShape) -> bool:
    """True where k counts taps of two axes: one vec4 of channels, as in first layers."""
    return shape.group_in <= 4 and not shape.is_pointwise and not shape.has_depth


def laid_taps(
    problem: Problem, shape: ConvShape, depth: int, pads_channels: bool = False
) -> LaidTaps:
    """Way of rounds of ``depth`` vec4s along k.

    ``pads_channels``: where rows of taps do not, channels fill rounds. As they are where weights
    are not known; not by rows where columns of taps are apart in the input, or the padding would
    take too many rounds.
    """
    channels = ceil_div(shape.group_in, 4)
    plain = LaidTaps(shape, 0, channels % depth == 0)
    if constant_weights(problem) is None:
        return plain
    if pads_channels and not plain.whole and shape.group == 1:
        padded = replace(shape, channels_in=4 * ceil_div(channels, depth) * depth)
        plain = LaidTaps(padded, 0, True, rest=True)
    height, width = shape.kernel[1:]
    row = 1 << (width - 1).bit_length()
    if not counts_taps(shape) or shape.dilations[2] != 1 or row > _LONGEST:
        return plain
    rows = max(1, depth // row)
    padded = replace(shape, kernel=(1, ceil_div(height, rows) * rows, row))
    rounds = padded.taps / depth
    many = rounds > _MORE_ROUNDS * ceil_div(shape.taps, depth)
    return plain if many or rounds != int(rounds) else LaidTaps(padded, row, True)
