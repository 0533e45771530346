"""Gradients of convolution, transposed convolution, and windows as columns.

The gradient by the input of a convolution is a transposed convolution, and the other way round
(Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning"). That by the weight
is a convolution in which batch and channels, strides and dilations have changed places; over one or
two axes it is computed as a product of matrices, one of which holds the windows, as long as that
does not get too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.training.gradients import gradient
from vknn.training.scope import Scope

#: Most elements of a matrix of windows (64 MiB).
COLUMNS = 1 << 24

#: A window over two axes: kernel, strides, pads, dilations.
Flat = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int], tuple[int, int]]
Three = tuple[Value | None, Value | None, Value | None]


@dataclass(frozen=True)
class WindowGeometry:
    """Geometry of windows in an image: taps, and pads as begins, then ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    def left_over(self, image: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
        """Number of elements at the ends of the padded image that no window reaches."""
        axes = range(len(image))
        ends = [
            (places[i] - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i] + 1
            for i in axes
        ]
        return tuple(image[i] + self.pads[i] + self.pads[i + len(image)] - ends[i] for i in axes)


@gradient(Conv)
def conv(g: Scope, dy: Value) -> Three:
    """A transposed convolution, the weight's gradient, and sums over all but the channels."""
    op, x, w = g.op(Conv), g.x(0), g.x(1)
    window = WindowGeometry(w.type.dims[2:], op.strides, op.pads, op.dilations)
    dx = spread(g, dy, w, window, op.group, x.type.dims[2:]) if g.wants(0) else None
    dw = filter_gradient(g, x, dy, window, op.group) if g.wants(1) else None
    return dx, dw, _bias(g, dy)


@gradient(ConvTranspose)
def conv_transpose(g: Scope, dy: Value) -> Three:
    """A convolution, the weight's gradient with the images changed, and sums as for Conv."""
    op, x, w = g.op(ConvTranspose), g.x(0), g.x(1)
    window = WindowGeometry(w.type.dims[2:], op.strides, op.pads, op.dilations)
    dx = dw = None
    if g.wants(0):
        dx = g.add(Conv(op.strides, op.pads, op.dilations, op.group), dy, w)
        # An output that was lengthened by whole strides has more windows than x elements.
        for axis, size in enumerate(x.type.dims[2:], start=2):
            dx = g.cut(dx, axis, 0, size)
    if g.wants(1):
        dw = filter_gradient(g, dy, x, window, op.group)
    return dx, dw, _bias(g, dy)


@gradient(Im2Col)
def im2col(g: Scope, dy: Value) -> Value:
    """Columns added up where they lie."""
    op = g.op(Im2Col)
    height, width = g.x().type.dims[2:]
    return g.add(Col2Im(op.kernel, op.strides, op.pads, op.dilations, (height, width)), dy)


@gradient(Col2Im)
def col2im(g: Scope, dy: Value) -> Value:
    """The windows as columns."""
    op = g.op(Col2Im)
    return g.add(Im2Col(op.kernel, op.strides, op.pads, op.dilations), dy)


def spread(
    g: Scope, dy: Value, w: Value, window: WindowGeometry, group: int, image: tuple[int, ...]
) -> Value:
    """The gradient of an image [N, C, *image] from that of its convolution with ``w``."""
    extra = window.left_over(image, dy.type.dims[2:])
    op = ConvTranspose(window.strides, window.pads, window.dilations, group, extra)
    return g.add(op, dy, w)


def filter_gradient(g: Scope, x: Value, dy: Value, window: WindowGeometry, group: int) -> Value:
    """dw [M, C/group, kernel...]: sums over n, p of dy[n, m, p] x[n, c, window k of p].

    x is [N, C, spatial...], dy [N, M, windows...].
    """
    n, channels = x.type.dims[:2]
    size = n * channels * math.prod(window.kernel) * math.prod(dy.type.dims[2:])
    if len(window.kernel) < 3 and size <= COLUMNS:
        return _as_product(g, x, dy, window, group)
    return _as_convolution(g, x, dy, window, group)


def _as_product(g: Scope, x: Value, dy: Value, window: WindowGeometry, group: int) -> Value:
    x, window = _reached(g, x, window, dy.type.dims[2:])
    n, channels = x.type.dims[:2]
    maps, places = dy.type.dims[1], math.prod(dy.type.dims[2:])
    depth = channels // group * math.prod(window.kernel)
    columns = g.reshape(columns_of(g, x, window), n, group, depth, places)
    rows = g.reshape(dy, n, group, maps // group, places)
    product = g.sum(g.matmul(rows, columns, tb=True), [0], keepdims=False)
    return g.reshape(product, maps, channels // group, *window.kernel)


def _reached(
    g: Scope, x: Value, window: WindowGeometry, places: tuple[int, ...]
) -> tuple[Value, WindowGeometry]:
    """The image cut at ends that no window reaches but that have room for further windows."""
    image = x.type.dims[2:]
    before, after = window.pads[: len(image)], list(window.pads[len(image) :])
    for axis, extra in enumerate(window.left_over(image, places)):
        if extra >= window.strides[axis]:
            size = image[axis] + min(0, after[axis] - extra)
            after[axis] = max(0, after[axis] - extra)
            x = g.cut(x, axis + 2, 0, size)
    return x, replace(window, pads=(*before, *after))


def columns_of(g: Scope, x: Value, window: WindowGeometry, value: float = 0.0) -> Value:
    """The windows of x [N, C, (H,) W] as columns [N, C * kernel, windows], padded by ``value``."""
    n, channels, *image = x.type.dims
    pads = window.pads
    single = math.prod(window.kernel) == 1 and max((*window.strides, *pads, 0)) <= 1
    if single and not any(pads):
        return g.reshape(x, n, channels, math.prod(image))
    height, width = (1, *image)[-2:]
    x = g.reshape(x, n, channels, height, width)
    return g.add(Im2Col(*flattened(window), value), x)


def flattened(window: WindowGeometry) -> Flat:
    """Kernel, strides, pads and dilations over two axes; a single axis is the second of them."""
    top, left, bottom, right = window.pads if len(window.pads) == 4 else _interleaved(window.pads)
    return (
        _pair(window.kernel), _pair(window.strides), (top, left, bottom, right),
        _pair(window.dilations),
    )  # fmt: skip


def _interleaved(pads: tuple[int, ...]) -> tuple[int, int, int, int]:
    before, after = pads
    return 0, before, 0, after


def _pair(numbers: tuple[int, ...]) -> tuple[int, int]:
    first, second = (1, *numbers)[-2:]
    return first, second


def _as_convolution(g: Scope, x: Value, dy: Value, window: WindowGeometry, group: int) -> Value:
    n, channels, *image = x.type.dims
    axes = tuple(range(2, 2 + len(image)))
    # [N, group, C/group, ...] -> [C/group, group * N, ...]: a batch of channels, N channels a group
    split = g.reshape(x, n, group, channels // group, *image)
    moved = g.transpose(split, 2, 1, 0, *(a + 1 for a in axes))
    images = g.reshape(moved, channels // group, group * n, *image)
    op = Conv(window.dilations, window.pads, window.strides, group)
    swapped = g.add(op, images, g.transpose(dy, 1, 0, *axes))
    for axis, taps in zip(axes, window.kernel, strict=True):
        swapped = g.cut(swapped, axis, 0, taps)
    return g.transpose(swapped, 1, 0, *axes)


def _bias(g: Scope, dy: Value) -> Value | None:
    if not g.wants(2):
        return None
    return g.sum(dy, [a for a in range(dy.type.rank) if a != 1], keepdims=False)
