"""Col2Im: sums of columns at their places in an image over any number of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.other_types import by_parts
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops.convolution.im2col import Col2Im

#: Integers that a float64 does not hold; sums of uint64 are the same modulo 2^64.
_WIDE = DType.INT64


@dataclass(frozen=True)
class BlockAxis:
    """The blocks along an axis of an image of ``size``."""

    taps: int
    step: int
    spread: int
    before: int
    after: int
    size: int

    @property
    def count(self) -> int:
        """The number of blocks that fit."""
        extent = (self.taps - 1) * self.spread + 1
        return (self.size + self.before + self.after - extent) // self.step + 1


@operator("Col2Im", 18, inputs=3)
def col2im(c: Context) -> Value:
    """Sums of columns at their places in an image"""
    image, block = c.ints(1, "image_shape"), c.ints(2, "block_shape")
    number, kind = len(image), c.x.type.dtype
    good = number == len(block) >= 1 and min(*image, *block) >= 1
    c.require(good and c.rank == 3, f"has the image {image} and blocks {block} for {c.x.type}")
    steps, spreads = (c.int_list(n, (1,) * number, number) for n in ("strides", "dilations"))
    pads = c.int_list("pads", (0,) * (2 * number), 2 * number)
    sane = min(*steps, *spreads) >= 1 and min(pads) >= 0
    c.require(sane, f"has the strides {steps}, dilations {spreads} and pads {pads}")
    ends = pads[number:]
    axes = [BlockAxis(*one) for one in zip(block, steps, spreads, pads, ends, image, strict=False)]
    n, rows, windows = c.x.type.dims
    parts, counts = math.prod(block), [axis.count for axis in axes]
    good = rows % parts == 0 and min(counts) >= 1 and windows == math.prod(counts)
    c.require(good, f"{c.x.type} does not hold blocks {block} of an image {image}")
    shape = (n, rows // parts, *block, *counts)
    if kind.is_complex:
        return by_parts(c, c.x, lambda real: placed(c, c.reshape(real, shape), axes))
    c.require(kind.is_float or kind.is_integer or kind is DType.BOOL, f"sums no {c.x.type}")
    wide = _WIDE if kind.is_integer and kind.itemsize > 4 else DType.FLOAT64
    x = c.x if kind.is_float else c.cast(c.x, wide)
    return c.cast(placed(c, c.reshape(x, shape), axes), kind)


def placed(c: Context, x: Value, axes: Sequence[BlockAxis]) -> Value:
    """x [n, channels, taps..., counts...] as an image [n, channels, sizes...].

    The last two axes are summed first; the others count as channels meanwhile.
    """
    n, channels = x.type.dims[:2]
    rest, own = list(axes[:-2]), list(axes[-2:])
    number, k = len(axes), len(axes[:-2])
    taps, counts = range(2, 2 + number), range(2 + number, 2 + 2 * number)
    outer = (*taps[:k], *counts[:k])
    moved = c.transpose(x, (0, 1, *outer, *taps[k:], *counts[k:]))
    lead = [x.type.dims[a] for a in outer]
    windows = math.prod(axis.count for axis in own)
    blocks = math.prod(axis.taps for axis in own)
    columns = c.reshape(moved, (n, channels * math.prod(lead) * blocks, windows))
    sizes = [axis.size for axis in own]
    found = c.reshape(c.add(_columns_op(own), columns), (n, channels, *lead, *sizes))
    if not rest:
        return found
    last = (*range(2 + 2 * k, 2 + 2 * k + len(own)),)
    inner = c.transpose(found, (0, 1, *last, *range(2, 2 + 2 * k)))
    inner = c.reshape(inner, (n, channels * math.prod(sizes), *lead))
    image = c.reshape(placed(c, inner, rest), (n, channels, *sizes, *(axis.size for axis in rest)))
    split = 2 + len(own)
    return c.transpose(image, (0, 1, *range(split, split + k), *range(2, split)))


def _columns_op(axes: Sequence[BlockAxis]) -> Col2Im:
    """The op over one or two axes."""
    first, second = axes if len(axes) == 2 else (BlockAxis(1, 1, 1, 0, 0, 1), axes[0])
    return Col2Im(
        (first.taps, second.taps),
        (first.step, second.step),
        (first.before, second.before, first.after, second.after),
        (first.spread, second.spread),
        (first.size, second.size),
    )
