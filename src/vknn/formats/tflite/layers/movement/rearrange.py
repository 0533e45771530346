"""TILE, reversals, space-to-depth and space-to-batch, MIRROR_PAD and matrix diagonals."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.movement.shape import pad_pairs
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Where
from vknn.ops.movement.rearrange import (
    DepthToSpace,
    MatrixDiag,
    ReverseSequence,
    SpaceToDepth,
    Tile,
)
from vknn.ops.movement.shape import Pad, Slice


@operator("TILE", inputs=2, takes_quantized=True)
def tile(c: Context) -> Value:
    """The input repeated along each axis."""
    repeats = c.ints(1, "the multiples")
    good = len(repeats) == c.x.type.rank and min(repeats, default=0) >= 0
    c.require(good, f"repeats {c.x.type} by {repeats}")
    return c.add(Tile(tuple(repeats)), c.x)


@operator("REVERSE_V2", inputs=2, takes_quantized=True)
def reverse(c: Context) -> Value:
    """The input reversed along the given axes."""
    rank = c.x.type.rank
    axes = tuple(sorted({c.axis(a, rank) for a in c.ints(1, "the axes")}))
    if not axes:
        return c.x
    far = (1 << 31) - 1
    count = len(axes)
    return c.add(Slice((far,) * count, (-far,) * count, axes, (-1,) * count), c.x)


def _block(c: Context) -> int:
    size = int(c.options["block_size"])
    c.require(size > 0, f"has blocks of {size}")
    c.require(c.x.type.rank == 4, f"takes a tensor of rank 4, not {c.x.type}")
    return size


@operator("SPACE_TO_DEPTH", takes_quantized=True)
def space_to_depth(c: Context) -> Value:
    """Blocks of pixels into channels, in the order (dy, dx, channel)."""
    return c.channels_last(c.add(SpaceToDepth(_block(c)), c.channels_second(c.x)))


@operator("DEPTH_TO_SPACE", takes_quantized=True)
def depth_to_space(c: Context) -> Value:
    """Channels, in the order (dy, dx, channel), into blocks of pixels."""
    return c.channels_last(c.add(DepthToSpace(_block(c)), c.channels_second(c.x)))


def _blocks(c: Context) -> tuple[list[int], list[tuple[int, int]]]:
    """Block sizes, and pads or crops, of the spatial axes."""
    sizes, edges = c.ints(1, "the block shape"), pad_pairs(c, 2)
    spatial = c.x.type.rank - 2
    c.require(1 <= spatial <= 2 and len(sizes) == len(edges) == spatial,
              f"has blocks {sizes} and edges {edges} for {c.x.type}")  # fmt: skip
    c.require(min(sizes) > 0 and all(min(e) >= 0 for e in edges), f"has blocks {sizes}, {edges}")
    return sizes, edges


@operator("SPACE_TO_BATCH_ND", inputs=3, takes_quantized=True)
def space_to_batch(c: Context) -> Value:
    """Padding, then pixels of blocks into the batch axis, the offset in the block being major."""
    sizes, edges = _blocks(c)
    quant = c.source(0).quant if c.is_quantized else None
    zero = float(quant.zero_point[0]) if quant is not None else 0.0
    ends = [(0, 0), *edges, (0, 0)]
    x = c.x
    if any(max(e) for e in edges):
        x = c.add(Pad((*(a for a, _ in ends), *(b for _, b in ends)), "constant", zero), x)
    n, *space, channels = x.type.dims
    whole = all(s % b == 0 for s, b in zip(space, sizes, strict=True))
    c.require(whole, f"has blocks {sizes} in {x.type}")
    # Channels come second here too, so that convolutions on either side need no transposes.
    split = [part for s, b in zip(space, sizes, strict=True) for part in (s // b, b)]
    seen = c.reshape(c.channels_second(x), (n, channels, *split))
    k = len(sizes)
    order = (*(3 + 2 * a for a in range(k)), 0, 1, *(2 + 2 * a for a in range(k)))
    small = [s // b for s, b in zip(space, sizes, strict=True)]
    shape = (int(np.prod(sizes)) * n, channels, *small)
    return c.channels_last(c.reshape(c.transpose(seen, order), shape))


@operator("BATCH_TO_SPACE_ND", inputs=3, takes_quantized=True)
def batch_to_space(c: Context) -> Value:
    """Inverse of SPACE_TO_BATCH_ND, with crops instead of pads."""
    sizes, edges = _blocks(c)
    n, *space, channels = c.x.type.dims
    places = int(np.prod(sizes))
    c.require(n % places == 0, f"has blocks {sizes} for a batch of {n}")
    k = len(sizes)
    seen = c.reshape(c.channels_second(c.x), (*sizes, n // places, channels, *space))
    order = [k, k + 1]
    for a in range(k):
        order += [k + 2 + a, a]
    large = [s * b for s, b in zip(space, sizes, strict=True)]
    whole = c.reshape(c.transpose(seen, order), (n // places, channels, *large))
    y = c.channels_last(whole)
    starts = tuple(a for a, _ in edges)
    ends = tuple(s - b for s, (_, b) in zip(large, edges, strict=True))
    c.require(all(a <= b for a, b in zip(starts, ends, strict=True)), f"crops {y.type} by {edges}")
    if not any(max(e) for e in edges):
        return y
    return c.add(Slice(starts, ends, tuple(range(1, k + 1))), y)


@operator("MATRIX_DIAG", takes_quantized=True)
def matrix_diag(c: Context) -> Value:
    """Square matrices of zeros with the given diagonals."""
    return c.add(MatrixDiag(), c.x)


@operator("MIRROR_PAD", inputs=2, takes_quantized=True)
def mirror_pad(c: Context) -> Value:
    """Padding by reflection, without the edge element (REFLECT) or with it (SYMMETRIC)."""
    edges = pad_pairs(c, 1)
    good = len(edges) == c.x.type.rank and all(min(e) >= 0 for e in edges)
    c.require(good, f"pads {c.x.type} by {edges}")
    mode = "reflect" if c.options["mode"] == 0 else "symmetric"
    most = [d - (mode == "reflect") for d in c.x.type.dims]
    inside = all(max(e) <= max(m, 0) for e, m in zip(edges, most, strict=True))
    c.require(inside, f"pads {c.x.type} by {edges}")
    return c.add(Pad((*(a for a, _ in edges), *(b for _, b in edges)), mode), c.x)


@operator("MATRIX_SET_DIAG", inputs=2, takes_quantized=True)
def matrix_set_diag(c: Context) -> Value:
    """Matrices with their main diagonals replaced."""
    diagonal, dims = c.value(1), c.x.type.dims
    c.require(len(dims) >= 2, f"sets the diagonal of {c.x.type}")
    *lead, rows, columns = dims
    size = min(rows, columns)
    fits = diagonal.type.dims == (*lead, size)
    c.require(fits, f"sets the diagonal {diagonal.type} of {c.x.type}")
    if not c.x.type.size:
        return c.x
    rest = (0,) * len(lead)
    wide = c.add(Pad((*rest, 0, *rest, columns - size)), diagonal)
    here = c.constant(np.eye(rows, columns, dtype=bool), "diagonal")
    return c.add(Where(), here, c.reshape(wide, (*lead, 1, columns)), c.x)


@operator("REVERSE_SEQUENCE", inputs=2, takes_quantized=True)
def reverse_sequence(c: Context) -> Value:
    """The first ``lengths[b]`` entries along one axis reversed, for each index b of another.

    TensorFlow Lite differs: it stops at lengths beyond the axis that are computed at run time; here
    they reverse the whole axis.
    """
    lengths, rank = c.value(1), c.x.type.rank
    time, batch = c.options["seq_dim"], c.options["batch_dim"]
    good = 0 <= time < rank and 0 <= batch < rank and time != batch
    c.require(good, f"reverses axis {time} by axis {batch} of {c.x.type}")
    fits = lengths.type.dtype.is_integer and lengths.type.dims == (c.x.type.dims[batch],)
    c.require(fits, f"has the lengths {lengths.type} for axis {batch} of {c.x.type}")
    if lengths.constant is not None:
        longest = int(lengths.constant.max(initial=0))
        c.require(longest <= c.x.type.dims[time], f"reverses {longest} along axis {time}")
    return c.add(ReverseSequence(batch, time), c.x, c.cast(lengths, DType.INT32))
