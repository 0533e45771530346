"""Sliding windows over spatial axes: kernel, strides, dilations and pads of a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.windows import same_pads, window_extents
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Slice

_AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
#: Spatial axes of a window.
_MOST_AXES = 8
#: Those of a kernel.
_KERNEL_AXES = 3
_MOST_PAD = 1 << 28
_MOST_TAPS = 1 << 24


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

    def resolved(self, sizes: Sequence[int], signed: bool = False) -> tuple[int, ...]:
        """The pads around an image of these sizes.

        ``signed``: those of SAME are below 0 where windows do not reach the ends, as onnxruntime's
        pools have it; else they are 0 then.
        """
        if self.auto_pad == "NOTSET":
            return self.pads
        if self.auto_pad == "VALID":
            return (0,) * (2 * len(sizes))
        found = same_pads(sizes, self.extents, self.strides, self.larger_first)
        if signed:
            found = tuple(map(self._same, sizes, self.extents, self.strides, found))
        return (*(begin for begin, _ in found), *(end for _, end in found))

    def _same(self, size: int, extent: int, step: int, found: tuple[int, int]) -> tuple[int, int]:
        """Pads along an axis, of which ``found`` are those that are not below 0."""
        missing = size - (-(-size // step) - 1) * step - extent
        if missing <= 0:
            return found
        begin = (missing - self.larger_first) // 2
        return -begin, begin - missing


def window(
    c: Context,
    kernel: Sequence[int] | None = None,
    dilated: bool = True,
    negative: bool = False,
    spreads: bool = False,
) -> WindowAttributes:
    """The window of a node; ``kernel``: of its weights, which an attribute may only repeat.

    ``negative``: whether the caller takes pads below 0 (:func:`cropped`). ``spreads``: whether
    strides lead through the result, not through the first input.
    """
    stated = c.int_list("kernel_shape", None)
    if kernel is None:
        kernel = c.int_list("kernel_shape")
    c.require(stated is None or tuple(stated) == tuple(kernel), f"says its kernel is {stated}")
    axes = len(kernel)
    c.require(c.rank == axes + 2, f"has a kernel of {axes} axes for {c.x.type}")
    if not 1 <= axes <= _MOST_AXES:
        c.refuse(f"{axes} spatial axes")
    c.require(math.prod(kernel) <= _MOST_TAPS, f"has the impossible kernel {list(kernel)}")
    ones, zeros = (1,) * axes, (0,) * (2 * axes)
    found = WindowAttributes(
        tuple(kernel),
        tuple(c.int_list("strides", ones, axes)),
        tuple(c.int_list("dilations", ones, axes)) if dilated else ones,
        tuple(c.int_list("pads", zeros, 2 * axes)),
        c.text("auto_pad", "NOTSET", _AUTO) or "NOTSET",
    )
    for what in ("kernel", "strides", "dilations"):
        c.require(min(getattr(found, what)) >= 1, f"{what} are not all above 0")
    spread = zip(found.dilations, kernel, strict=True)  # one tap has no distance, however large
    found = replace(found, dilations=tuple(1 if k == 1 else far for far, k in spread))
    sane = max(map(abs, found.pads)) <= _MOST_PAD
    c.require(sane, f"has the impossible pads {list(found.pads)}")
    if min(found.pads) < 0 and not negative:
        c.refuse(f"the negative pads {list(found.pads)}")
    if spreads:
        return found
    # A stride that leads out of the image is as good as any other, but may exceed 32 bits.
    most = max(1, *c.x.type.dims) + 2 * max(map(abs, found.pads))
    return replace(found, strides=tuple(min(stride, most) for stride in found.strides))


def cropped(
    c: Context, x: Value, w: WindowAttributes, signed: bool = False
) -> tuple[Value, WindowAttributes]:
    """An image without what negative pads cut off, and the window with the others.

    ``signed``: see :meth:`WindowAttributes.resolved`.
    """
    sizes, axes = x.type.dims[2:], len(w.kernel)
    pads = w.resolved(sizes, signed)
    if min(pads) >= 0:
        return x, w
    begins = tuple(max(-p, 0) for p in pads[:axes])
    ends = tuple(size - max(-p, 0) for size, p in zip(sizes, pads[axes:], strict=True))
    good = all(b <= e for b, e in zip(begins, ends, strict=True))
    c.require(good, f"crops {x.type} by the pads {list(pads)}")
    return c.add(Slice(begins, ends, tuple(range(2, 2 + axes))), x), replace(
        w, pads=tuple(max(p, 0) for p in pads), auto_pad="NOTSET"
    )


def pool_pads(
    c: Context, w: WindowAttributes, sizes: Sequence[int] | None = None, signed: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Begins, ends, and how far the last windows reach beyond these.

    They do where ``ceil_mode`` is on, and a lone window does that is larger than the image by less
    than a stride: onnxruntime divides towards zero. A window that would begin in the padding at the
    end is left out. ``sizes``: of the image, by default of the first input. ``signed``: see
    :meth:`WindowAttributes.resolved`.
    """
    sizes, axes = c.x.type.dims[2:] if sizes is None else sizes, len(w.kernel)
    pads = w.resolved(sizes, signed)
    inside = all(p < e for p, e in zip(pads, w.extents * 2, strict=True))
    c.require(inside, f"has the pads {list(pads)}, each must be below its window of {w.extents}")
    begins, ends, over = pads[:axes], pads[axes:], [0] * axes
    if w.auto_pad.startswith("SAME"):
        return begins, ends, tuple(over)
    for axis, (size, step) in enumerate(zip(sizes, w.strides, strict=True)):
        more = size + begins[axis] + ends[axis] - w.extents[axis]
        if more >= 0 and not c.flag("ceil_mode"):
            continue
        count = -(-more // step) + 1
        if (count - 1) * step >= size + begins[axis]:
            count -= 1
        if count > 0:
            over[axis] = max((count - 1) * step - more, 0)
    return begins, ends, tuple(over)


def over_axes(
    c: Context,
    x: Value,
    w: WindowAttributes,
    pads: Sequence[int],
    pooled: Callable[[Value, WindowAttributes], Value],
) -> Value:
    """A pool over any number of axes, two of which at a time where there are more than three.

    ``pooled``: the pool of an image in a window over up to three axes, whose pads are those of the
    operation. The pool of a whole has to be that of its parts, as a maximum, a sum and a mean are.
    """
    axes = len(w.kernel)
    spans = [d + b + e for d, b, e in zip(x.type.dims[2:], pads[:axes], pads[axes:], strict=True)]
    rooms = [span - extent for span, extent in zip(spans, w.extents, strict=True)]
    counts = [
        -(-m // s) + 1 if m < 0 else m // s + 1 for m, s in zip(rooms, w.strides, strict=True)
    ]
    if min(rooms) < 0 and min(counts) == 0:
        # No window at all: as in onnxruntime, which divides towards zero.
        return c.constant(np.zeros((*x.type.dims[:2], *counts), x.type.dtype.numpy), "windows")
    if axes <= _KERNEL_AXES:
        return pooled(x, replace(w, pads=tuple(pads), auto_pad="NOTSET"))
    for first in range(0, axes, 2):
        own = slice(first, first + 2)
        lead, dims = x.type.dims[: first + 2], x.type.dims[2:]
        behind = dims[first + 2 :]
        part = WindowAttributes(
            (*w.kernel[own], 1),
            (*w.strides[own], 1),
            (*w.dilations[own], 1),
            (*pads[:axes][own], 0, *pads[axes:][own], 0),
            "NOTSET",
        )
        shape = (math.prod(lead), 1, *dims[own], math.prod(behind))
        found = pooled(c.reshape(x, shape), part)
        x = c.reshape(found, (*lead, *found.type.dims[2:-1], *behind))
    return x


def window_sums(c: Context, x: Value, w: WindowAttributes) -> Value:
    """Sums of windows, of up to three axes, of a tensor of floats, padding being 0."""
    (n, channels), sizes = x.type.dims[:2], x.type.dims[2:]
    ones = c.constant(np.ones((max(channels, 1), 1, *w.kernel), x.type.dtype.numpy), "ones")
    op = Conv(w.strides, w.pads, w.dilations, max(channels, 1))
    if channels:
        return c.add(op, x, ones)
    (found,) = op.infer(x.type.with_shape((n, 1, *sizes)), ones.type)
    return c.constant(np.zeros((n, 0, *found.dims[2:]), x.type.dtype.numpy), "nothing")
