"""Convolution and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import WindowAttributes, cropped, window
from vknn.formats.onnx.layers.sampling.columns import BlockAxis, placed
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.windows import halves
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Add
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Pad


@operator("Conv", 1, 11, 22, inputs=(2, 3))
def conv(c: Context) -> Value:
    """Sums of windows times weights, plus a bias"""
    weights = c.value(1)
    c.require(weights.type.rank >= 3, f"has the weights {weights.type}")
    w = window(c, weights.type.dims[2:], negative=True)
    _check_pads(c, w)
    x, w = cropped(c, c.x, w)
    return convolved(c, x, weights, c.optional(2), w)


def _check_pads(c: Context, w: WindowAttributes) -> None:
    """Check: pads are stated, or how they are found; Malformed for both."""
    once = w.auto_pad == "NOTSET" or not c.has("pads")
    c.require(once, f"has pads and auto_pad {w.auto_pad}, of which ONNX allows one")


def convolved(
    c: Context, x: Value, weights: Value, bias: Value | None, w: WindowAttributes
) -> Value:
    """The convolution of an image over any number of axes, in the node's groups."""
    group = c.int("group", 1)
    if len(w.kernel) <= 3:
        op = Conv(w.strides, w.resolved(x.type.dims[2:]), w.dilations, group)
        return c.add(op, x, weights, bias)
    # What a window reads along the first axis becomes channels, its steps entries of the batch.
    axes, pads = len(w.kernel), w.resolved(x.type.dims[2:])
    taps, step, spread = w.kernel[0], w.strides[0], w.dilations[0]
    ends = (0, 0, pads[0], *[0] * (axes + 1), pads[axes], *[0] * (axes - 1))
    padded = c.add(Pad(ends), x) if pads[0] or pads[axes] else x
    count = (padded.type.dims[2] - w.extents[0]) // step + 1
    c.require(count >= 1, f"has a window of {w.extents} for {c.x.type}")
    c.makeable(taps * count)
    places = np.arange(taps)[:, None] * spread + np.arange(count) * step
    read = c.add(Gather(2), padded, c.constant(places.astype(np.int32), "taps"))
    n, channels = x.type.dims[:2]
    rest = x.type.dims[3:]
    moved = c.transpose(read, (0, 3, 1, 2, *range(4, axes + 3)))
    flat = c.reshape(moved, (n * count, channels * taps, *rest))
    outputs, depth, _, *inner = weights.type.dims
    part = WindowAttributes(
        w.kernel[1:], w.strides[1:], w.dilations[1:],
        (*pads[1:axes], *pads[axes + 1 :]), "NOTSET",
    )  # fmt: skip
    y = convolved(c, flat, c.reshape(weights, (outputs, depth * taps, *inner)), bias, part)
    apart = c.reshape(y, (n, count, *y.type.dims[1:]))
    return c.transpose(apart, (0, 2, 1, *range(3, axes + 2)))


@operator("ConvTranspose", 1, 11, 22, inputs=(2, 3))
def conv_transpose(c: Context) -> Value:
    """Sums of elements times weights where their windows overlap, plus a bias"""
    return _overlapped(c, None, c.optional(2))


@operator("ConvTransposeWithDynamicPads", 1, inputs=(2, 4), domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(c: Context) -> Value:
    """ConvTranspose whose pads are an input"""
    pads = None if c.optional(2) is None else c.ints(2, "Pads")
    return _overlapped(c, pads, c.optional(3))


def _overlapped(c: Context, given: list[int] | None, bias: Value | None) -> Value:
    """ConvTranspose of the first input; ``given``: pads that take the place of the attribute's."""
    weights = c.value(1)
    c.require(weights.type.rank >= 3, f"has the weights {weights.type}")
    w = window(c, weights.type.dims[2:], negative=True, spreads=True)
    _check_pads(c, w)
    axes = len(w.kernel)
    extra = list(c.int_list("output_padding", (0,) * axes, axes))
    most = [max(pair) for pair in zip(w.strides, w.dilations, strict=True)]
    good = all(0 <= e < far for e, far in zip(extra, most, strict=True))
    c.require(
        good,
        f"has the output_padding {extra}, each must be below the larger of its stride "
        f"and dilation {most}",
    )
    pads = list(w.pads) if given is None else given
    c.require(len(pads) == 2 * axes, f"has the pads {pads}")
    wanted = c.int_list("output_shape", None)
    if wanted is not None:
        c.require(len(wanted) in (axes, axes + 2), f"has the output_shape {list(wanted)}")
        wanted = wanted[-axes:]
    elif w.auto_pad.startswith("SAME"):
        sizes = zip(c.x.type.dims[2:], w.strides, strict=True)
        wanted = tuple(size * step for size, step in sizes)
    elif w.auto_pad == "VALID":
        pads = [0] * (2 * axes)
    if wanted is not None:
        pads, extra = _pads_for(c, w, wanted, extra)
    if 0 in c.x.type.dims[2:]:
        return _biased(c, _of_nothing(c, w, pads, extra), bias)
    # Pads below 0 add elements, of which no window gives anything.
    before = [max(-p, 0) for p in pads[:axes]]
    extra = [e + max(-p, 0) for e, p in zip(extra, pads[axes:], strict=True)]
    kept = tuple(max(p, 0) for p in pads)
    if axes <= 3:
        op = ConvTranspose(w.strides, kept, w.dilations, c.int("group", 1), tuple(extra))
        if not any(before):
            return c.add(op, c.x, weights, bias)
        y = c.add(op, c.x, weights, None)
    else:
        y = _by_columns(c, replace(w, pads=kept), extra)
    if any(before):
        y = c.add(Pad((0, 0, *before, 0, 0, *[0] * axes)), y)
    return _biased(c, y, bias)


def _biased(c: Context, y: Value, bias: Value | None) -> Value:
    if bias is None:
        return y
    return c.add(Add(), y, c.reshape(bias, (bias.type.size, *[1] * (y.type.rank - 2))))


def _of_nothing(
    c: Context, w: WindowAttributes, pads: Sequence[int], extra: Sequence[int]
) -> Value:
    """A transposed convolution of an empty image: what the formula leaves of it, zeros."""
    (n, channels), sizes, axes = c.x.type.dims[:2], c.x.type.dims[2:], len(w.kernel)
    weights, group = c.value(1).type.dims, c.int("group", 1)
    good = group >= 1 and channels % group == 0 and weights[0] == channels
    c.require(good, f"has the weights {c.value(1).type} for {c.x.type} in {group} groups")
    spatial = [
        (size - 1) * w.strides[a] + w.extents[a] + extra[a] - pads[a] - pads[a + axes]
        for a, size in enumerate(sizes)
    ]
    c.require(min(spatial) >= 1, f"has the pads {list(pads)} for {c.x.type}")
    dims = (n, group * weights[1], *spatial)
    c.makeable(math.prod(dims), c.x.type.dtype)
    return c.constant(np.zeros(dims, c.x.type.dtype.numpy), "nothing")


def _by_columns(c: Context, w: WindowAttributes, extra: Sequence[int]) -> Value:
    """A transposed convolution over any number of axes: products, summed at their places."""
    weights, group, axes = c.value(1), c.int("group", 1), len(w.kernel)
    (n, channels), sizes = c.x.type.dims[:2], c.x.type.dims[2:]
    good = group >= 1 and channels % group == 0 and weights.type.dims[0] == channels
    c.require(good, f"has the weights {weights.type} for {c.x.type} in {group} groups")
    rows = weights.type.size // max(channels, 1)
    matrix = c.reshape(weights, (1, group, channels // group, rows))
    images = c.reshape(c.x, (n, group, channels // group, math.prod(sizes)))
    columns = c.add(MatMul(transpose_a=True), matrix, images)
    blocks, beyond = [], []
    for axis, size in enumerate(sizes):
        before, after = w.pads[axis], w.pads[axis + axes] - extra[axis]
        full = (size - 1) * w.strides[axis] + w.extents[axis] - before - max(after, 0)
        c.require(full >= 1 and size >= 1, f"has the pads {list(w.pads)} for {c.x.type}")
        blocks.append(
            BlockAxis(
                w.kernel[axis], w.strides[axis], w.dilations[axis], before, max(after, 0), full
            )
        )
        beyond.append(max(-after, 0))
    outputs = group * weights.type.dims[1]
    y = placed(c, c.reshape(columns, (n, outputs, *w.kernel, *sizes)), blocks)
    return c.add(Pad((*[0] * (axes + 4), *beyond)), y) if any(beyond) else y


def _pads_for(
    c: Context, w: WindowAttributes, wanted: tuple[int, ...], extra: list[int]
) -> tuple[list[int], list[int]]:
    """Pads, and additions at the ends, that give an output of the sizes ``wanted``."""
    begins, ends, more = [], [], []
    sizes = c.x.type.dims[2:]
    for axis, size in enumerate(wanted):
        full = (sizes[axis] - 1) * w.strides[axis] + w.extents[axis] + extra[axis]
        total = full - size
        # Of an odd number the larger half is at the end with SAME_UPPER, else at the start.
        begin, end = halves(max(total, 0), w.auto_pad != "SAME_UPPER")
        begins.append(begin)
        ends.append(end)
        more.append(extra[axis] + max(-total, 0))
    return [*begins, *ends], more
