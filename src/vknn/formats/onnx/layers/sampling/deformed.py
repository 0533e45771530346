"""DeformConv: convolutions of samples at places that are shifted by data."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import WindowAttributes, window
from vknn.formats.onnx.layers.sampling.regions import sampled
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Pad
from vknn.ops.sampling.grid_sample import GridSample


@operator("DeformConv", 19, 22, inputs=(3, 5))
def deform_conv(c: Context) -> Value:
    """Conv of samples at places that are shifted by data, times a mask"""
    w = window(c, c.value(1).type.dims[2:], negative=True)
    axes, pads = len(w.kernel), w.resolved(c.x.type.dims[2:])
    if axes > 2 or min(pads) < 0:
        return _by_samples(c, w)
    x, weights, offset, mask = c.x, c.value(1), c.value(2), c.optional(4)
    if axes == 1:
        return _in_rows(c, w)
    op = _op(c, w.strides, pads, w.dilations)
    return c.add(op, x, weights, offset, c.optional(3), mask)


def _op(
    c: Context, strides: tuple[int, ...], pads: tuple[int, ...], dilations: tuple[int, ...]
) -> DeformConv:
    return DeformConv(
        (strides[0], strides[1]),
        (pads[0], pads[1], pads[2], pads[3]),
        (dilations[0], dilations[1]),
        c.int("group", 1),
        c.int("offset_group", 1),
    )


def _in_rows(c: Context, w: WindowAttributes) -> Value:
    """The same along one axis: of images of height 1, whose places move along the width alone."""
    x, weights, offset, mask = (c.optional(i) for i in (0, 1, 2, 4))
    assert x is not None and weights is not None and offset is not None
    n, shifts, width = offset.type.dims
    apart = c.reshape(offset, (n, shifts, 1, width))
    both = c.reshape(c.add(Pad((0, 0, 1, 0, 0, 0, 0, 0)), apart), (n, 2 * shifts, 1, width))
    before, after = w.resolved(x.type.dims[2:])
    op = _op(c, (1, *w.strides), (0, before, 0, after), (1, *w.dilations))
    x, weights, mask = (
        None if v is None else c.reshape(v, (*v.type.dims[:2], 1, v.type.dims[2]))
        for v in (x, weights, mask)
    )
    y = c.add(op, x, weights, both, c.optional(3), mask)
    return c.reshape(y, (*y.type.dims[:2], y.type.dims[3]))


def _by_samples(c: Context, w: WindowAttributes) -> Value:
    """The same along any number of axes: samples of all taps, and a product with the weights."""
    x, weights, offset, bias, mask = c.x, c.value(1), c.value(2), c.optional(3), c.optional(4)
    (n, channels), sizes, out = x.type.dims[:2], x.type.dims[2:], offset.type.dims[2:]
    group, parts, outputs = c.int("group", 1), c.int("offset_group", 1), weights.type.dims[0]
    axes, taps, places = len(w.kernel), math.prod(w.kernel), math.prod(out)
    c.require(parts >= 1 and group >= 1, f"has {group} groups, {parts} of offsets")
    fits = offset.type.dims[:2] == (n, parts * taps * axes) and channels % parts == 0
    fits = fits and weights.type.dims[1] * group == channels and outputs % group == 0
    c.require(fits, f"has the weights {weights.type} and offsets {offset.type} for {x.type}")
    grid = c.reshape(_coordinates(c, w, n * parts), (n * parts, taps * places, axes))
    images = c.reshape(x, (n * parts, channels // parts, *sizes))
    samples = sampled(c, GridSample("linear", "zeros", False), images, grid)
    samples = c.reshape(samples, (n, parts, channels // parts, taps, places))
    if mask is not None:
        samples = c.add(ew.Mul(), samples, c.reshape(mask, (n, parts, 1, taps, places)))
    rows = c.reshape(samples, (n, group, channels // group * taps, places))
    matrix = c.reshape(weights, (1, group, outputs // group, channels // group * taps))
    y = c.reshape(c.add(MatMul(), matrix, rows), (n, outputs, *out))
    return y if bias is None else c.add(ew.Add(), y, c.reshape(bias, (outputs, *[1] * axes)))


def _coordinates(c: Context, w: WindowAttributes, images: int) -> Value:
    """GridSample's coordinates of all taps in all places: [images, taps, places, axes]."""
    offset, sizes, axes = c.value(2), c.x.type.dims[2:], len(w.kernel)
    out, taps = offset.type.dims[2:], math.prod(w.kernel)
    kind = DType.FLOAT64 if offset.type.dtype is DType.FLOAT64 else DType.FLOAT32
    pads = w.resolved(sizes)
    reach = zip(sizes, pads[:axes], pads[axes:], w.extents, w.strides, strict=True)
    wanted = tuple((size + a + b - extent) // step + 1 for size, a, b, extent, step in reach)
    c.require(out == wanted, f"has the offsets {offset.type} for an output of {wanted}")
    starts = np.indices(out).reshape(axes, 1, -1) * np.reshape(w.strides, (axes, 1, 1))
    steps = np.indices(w.kernel).reshape(axes, -1, 1) * np.reshape(w.dilations, (axes, 1, 1))
    middle = starts + steps - np.reshape(pads[:axes], (axes, 1, 1))
    # Place p of an axis is coordinate (2 p + 1) / size - 1; the innermost axis comes first.
    length = np.asarray(sizes[::-1], np.float64)
    first = (2 * middle[::-1].transpose(1, 2, 0) + 1) / length - 1
    moved = c.reshape(c.cast(offset, kind), (images, taps, axes, math.prod(out)))
    turned = c.add(Gather(2), moved, c.constant(np.arange(axes, dtype=np.int32)[::-1], "axes"))
    turned = c.transpose(turned, (0, 1, 3, 2))
    scaled = c.add(ew.Mul(), turned, c.constant((2 / length).astype(kind.numpy), "factors"))
    return c.add(ew.Add(), scaled, c.constant(first.astype(kind.numpy), "firsts"))
