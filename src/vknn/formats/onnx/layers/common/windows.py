"""Sliding windows over spatial axes: kernel, strides, dilations and pads of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.windows import same_pads, window_extents
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv

_AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_MOST_AXES = 3
_MOST_PAD = 1 << 28


@dataclass(frozen=True)
class WindowAttributes:
    """A sliding window. ``pads``: those of the file, begins of all axes, then ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str

    @property
    def extents(self) -> tuple[int, ...]:
        """The number of elements that the window spans along each axis."""
        return window_extents(self.kernel, self.dilations)

    @property
    def larger_first(self) -> bool:
        """Whether the larger half of an odd padding stands at the start."""
        return self.auto_pad == "SAME_LOWER"

    def resolved(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The pads around an image of these sizes."""
        if self.auto_pad == "NOTSET":
            return self.pads
        if self.auto_pad == "VALID":
            return (0,) * (2 * len(sizes))
        found = same_pads(sizes, self.extents, self.strides, self.larger_first)
        return (*(begin for begin, _ in found), *(end for _, end in found))


def window(
    c: Context, kernel: Sequence[int] | None = None, dilated: bool = True
) -> WindowAttributes:
    """The window of a node; ``kernel``: of its weights, which an attribute may only repeat."""
    stated = c.int_list("kernel_shape", None)
    if kernel is None:
        kernel = c.int_list("kernel_shape")
    c.require(stated is None or tuple(stated) == tuple(kernel), f"says its kernel is {stated}")
    axes = len(kernel)
    c.require(c.rank == axes + 2, f"has a kernel of {axes} axes for {c.x.type}")
    if not 1 <= axes <= _MOST_AXES:
        c.refuse(f"{axes} spatial axes")
    ones, zeros = (1,) * axes, (0,) * (2 * axes)
    found = WindowAttributes(
        tuple(kernel),
        tuple(c.int_list("strides", ones, axes)),
        tuple(c.int_list("dilations", ones, axes)) if dilated else ones,
        tuple(c.int_list("pads", zeros, 2 * axes)),
        c.text("auto_pad", "NOTSET", _AUTO),
    )
    for what in ("kernel", "strides", "dilations"):
        c.require(min(getattr(found, what)) >= 1, f"{what} are not all above 0")
    c.require(max(found.pads) <= _MOST_PAD, f"has the impossible pads {list(found.pads)}")
    if min(found.pads) < 0:
        c.refuse(f"the negative pads {list(found.pads)}")
    return found


def pool_pads(
    c: Context, w: WindowAttributes
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Begins, ends, and how far the last windows reach beyond these where ``ceil_mode`` is on.

    A window that would begin in the padding at the end is left out.
    """
    sizes, axes = c.x.type.dims[2:], len(w.kernel)
    pads = w.resolved(sizes)
    begins, ends, over = pads[:axes], pads[axes:], [0] * axes
    if c.flag("ceil_mode") and not w.auto_pad.startswith("SAME"):
        for axis, (size, step) in enumerate(zip(sizes, w.strides, strict=True)):
            padded = size + begins[axis] + ends[axis]
            count = -(-(padded - w.extents[axis]) // step) + 1
            if (count - 1) * step >= size + begins[axis]:
                count -= 1
            over[axis] = max((count - 1) * step + w.extents[axis] - padded, 0)
    return begins, ends, tuple(over)


def window_sums(
    c: Context, x: Value, w: WindowAttributes, begins: Sequence[int], ends: Sequence[int]
) -> Value:
    """Sums of windows of a tensor of floats, padding being 0."""
    channels = x.type.dims[1]
    ones = c.constant(np.ones((channels, 1, *w.kernel), x.type.dtype.numpy), "ones")
    return c.add(Conv(w.strides, (*begins, *ends), w.dilations, channels), x, ones)
