"""Strides, dilations, padding and output sizes of the windows of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.windows import flat_pads, same_pads, window_extents
from vknn.graph import Value

_SAME = 0


def strides(c: Context) -> tuple[int, int]:
    """Strides along height and width, at least 1."""
    found = (c.options["stride_h"], c.options["stride_w"])
    c.require(min(found) > 0, f"has the strides {found}")
    return found


def dilations(c: Context) -> tuple[int, int]:
    """Dilations along height and width, at least 1."""
    found = (c.options["dilation_h_factor"], c.options["dilation_w_factor"])
    c.require(min(found) > 0, f"has the dilations {found}")
    return found


def padding(
    c: Context,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int] = (1, 1),
) -> tuple[int, ...]:
    """Pads, all begins and then all ends: 0 for VALID; of an odd SAME total the end gets one more.

    ``steps`` are the strides, ``spread`` the dilations.
    """
    if c.options["padding"] != _SAME:
        return (0, 0) * len(sizes)
    return flat_pads(same_pads(sizes, window_extents(kernel, spread), steps))


def window_outputs(
    c: Context,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int] = (1, 1),
) -> tuple[int, ...]:
    """Sizes of the output along the windows' axes.

    A VALID window that is larger than its image by less than a stride gives the size 0; by more,
    Malformed is raised.
    """
    if c.options["padding"] == _SAME:
        return tuple(-(-size // step) for size, step in zip(sizes, steps, strict=True))
    found = []
    for size, k, step, dilation in zip(sizes, kernel, steps, spread, strict=True):
        left = size + step - (k - 1) * dilation - 1
        c.require(left > -step, f"has windows of {kernel} in images of {sizes}")
        found.append(max(left // step, 0))
    return tuple(found)


def image_sizes(c: Context, x: Value) -> tuple[int, int, int, int]:
    """Sizes (n, h, w, c) of an NHWC tensor."""
    c.require(x.type.rank == 4, f"takes a tensor of rank 4, not {x.type}")
    n, h, w, channels = x.type.dims
    return n, h, w, channels


def empty_output(
    c: Context, channels: int, kernel: tuple[int, int], spread: tuple[int, int] = (1, 1)
) -> Value | None:
    """Empty output of a convolution or a pool whose windows fit nowhere; None where one fits."""
    count, *sizes, _ = image_sizes(c, c.x)
    found = window_outputs(c, (sizes[0], sizes[1]), kernel, strides(c), spread)
    if all(found):
        return None
    return c.constant(np.zeros((count, *found, channels), c.target().dtype.numpy), "empty")
