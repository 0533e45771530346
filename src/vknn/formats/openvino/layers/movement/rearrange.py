"""Permute, Pad, Tile, ShuffleChannels and ReverseSequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.elementwise.binary import Cast
from vknn.ops.movement import shape as ops
from vknn.ops.movement.rearrange import ReverseSequence, Tile


@layer("Permute")
def permute(c: Context) -> Value:
    """Transpose: axis i of the output is axis order[i] of the input."""
    order: Sequence[int] = c.ints("order")
    fits = sorted(order) == list(range(c.rank))
    c.require(fits, f"order {list(order)} does not permute {c.rank} axes")
    return c.transpose(c.x, order)


@layer("Pad", inputs=(1, 4))
def pad(c: Context) -> Value:
    """numpy.pad; pads and value are attributes, or inputs as in later versions of the format."""
    begin, end = _pads(c, 1, "pads_begin"), _pads(c, 2, "pads_end")
    mode = c.text("pad_mode", "constant", choices=("constant", "edge", "reflect", "symmetric"))
    value = c.float("pad_value", 0.0) if len(c.inputs) < 4 else c.input_scalar(3, "pad_value")
    if mode == "reflect":  # numpy takes an axis of size 1 for an edge there
        for size, most in zip(c.x.type.dims, map(max, begin, end), strict=True):
            c.require(most < size, f"reflects {most} of {size} elements")
    if mode == "symmetric":
        for size, most in zip(c.x.type.dims, map(max, begin, end), strict=True):
            c.require(most <= size, f"mirrors {most} of {size} elements")
    x = c.float_input() if c.dtype().is_float else c.x
    held = Cast(x.type.dtype).reference(np.array(value, np.float64))[0].item()
    return c.add(ops.Pad((*begin, *end), mode, held if mode == "constant" else 0.0), x)


def _pads(c: Context, number: int, what: str) -> Sequence[int]:
    given = number < len(c.inputs)
    pads: Sequence[int] = c.input_ints(number, what) if given else c.ints(what)
    c.require(len(pads) == c.rank, f"{what} holds {len(pads)} numbers for {c.rank} axes")
    c.require(min(pads, default=0) >= 0, f"{what} {list(pads)} holds negative numbers")
    return pads


@layer("Tile")
def tile(c: Context) -> Value:
    """``tiles`` copies of the whole input side by side along the axis."""
    axis, tiles = c.axis(c.int("axis"), c.rank), c.int("tiles")
    c.require(tiles >= 1, f"has {tiles} tiles")
    if tiles == 1:
        return c.x
    return c.add(Tile(tuple(tiles if a == axis else 1 for a in range(c.rank))), c.x)


@layer("ShuffleChannels")
def shuffle_channels(c: Context) -> Value:
    """Channels as [group, size / group], transposed."""
    axis, group = c.axis(c.int("axis", 1), c.rank), c.int("group", 1)
    dims = c.x.type.dims
    good = group >= 1 and dims[axis] % group == 0
    c.require(good, f"{group} groups do not divide {dims[axis]} channels")
    if axis == 1:
        return c.x if group in (1, dims[1]) else c.add(ops.ChannelShuffle(group), c.x)
    split = c.reshape(c.x, (*dims[:axis], group, dims[axis] // group, *dims[axis + 1 :]))
    order = (*range(axis), axis + 1, axis, *range(axis + 2, c.rank + 1))
    return c.reshape(c.transpose(split, order), dims)


@layer("ReverseSequence", inputs=2)
def reverse_sequence(c: Context) -> Value:
    """The first entries along seq_axis reversed, as many as stated for each index of batch_axis."""
    batch = c.axis(c.int("batch_axis", 0), c.rank)
    time = c.axis(c.int("seq_axis", 1), c.rank)
    c.require(batch != time, f"batch_axis and seq_axis are both {batch}")
    count = c.x.type.dims[batch]
    lengths = c.int_input(1)
    c.require(lengths.type.size == count, f"has {lengths.type.size} lengths for {count} sequences")
    return c.add(ReverseSequence(batch, time), c.x, c.reshape(lengths, (count,)))
