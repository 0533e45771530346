"""Padding of windows: explicit sizes, SAME_UPPER and SAME_LOWER."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.ncnn.context import Context, rank
from vknn.formats.ncnn.params import P, require
from vknn.formats.windows import Pads, flat_pads, same_pads
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Pad

SAME_UPPER, SAME_LOWER = -233, -234


def check_pads(pads: Sequence[int]) -> None:
    """Check: Malformed for negative pads beside positive ones; negative pads alone mean none."""
    good = min(pads) >= 0 or max(pads) <= 0
    require(good, f"negative padding {list(pads)} (left, right, top, bottom)")


def window_pads(
    given: Pads, sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> Pads:
    """Pads of a convolution: ``given``, or SAME pads where all of these have the same SAME code."""
    flat = {n for pair in given for n in pair}
    if max(flat) > 0:
        return given
    if flat in ({SAME_UPPER}, {SAME_LOWER}):
        return same_pads(sizes, extents, strides, larger_first=flat == {SAME_LOWER})
    return tuple((0, 0) for _ in given)


def applicable_pads(c: Context[P], pads: Pads) -> Pads:
    """``pads`` of the axes that the layer's input has, 0 for others, which ncnn does not pad.

    A padded depth of a blob of three axes, for which ncnn pads the channels, raises Malformed.
    """
    n, axes = rank(c.x), len(pads)
    whole = n != 3 or axes != 3 or pads[0] == (0, 0)
    c.require(whole, "a blob of three axes has no depth to be padded")
    missing = max(axes - n, 0)
    return ((0, 0),) * missing + pads[missing:]


def pad_spatial(c: Context[P], x: Value, pads: Pads, value: float) -> Value:
    """``x`` with its last axes padded with ``value``, truncated to an integer for int8 blobs."""
    if not any(flat_pads(pads)):
        return x
    if x.type.dtype is DType.INT8:
        value = float(int(value))
    full = ((0, 0),) * (x.type.rank - len(pads)) + pads
    return c.add(Pad(pads=flat_pads(full), mode="constant", value=value), x)
