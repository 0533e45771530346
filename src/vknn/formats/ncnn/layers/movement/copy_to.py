"""CopyTo: a part of a blob replaced by another blob."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.ncnn.axes import axis_names, with_rank
from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require, require_axes
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.graph import Value, attributes
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.rearrange import SliceUpdate
from vknn.ops.movement.shape import Concat, Slice

#: A start that is the beginning of its axis.
_OPEN = -233


@attributes
class CopyToParams(Params):
    """Parameters of CopyTo."""

    woffset: int = param(0)
    hoffset: int = param(1)
    doffset: int = param(13)
    coffset: int = param(2)
    starts: tuple[int, ...] = param(9, ())
    axes: tuple[int, ...] = param(11, ())

    def check(self) -> None:
        require(len(self.starts) <= 4, f"starts {list(self.starts)} are more than four")
        listed = len(self.axes) == len(self.starts) or not (self.axes and self.starts)
        require(listed, f"{len(self.axes)} axes for {len(self.starts)} starts")
        require_axes(self.axes)


@layer("CopyTo", params=CopyToParams, inputs=2, accepts=ANY, result=same_type)
def copy_to(c: Context[CopyToParams]) -> Value:
    """The first input with the second one copied into it.

    ncnn differs: a second input of the first one's shape replaces it whatever the offsets are.
    ncnn differs: a second input of lower rank is read as one whose missing axes have size 1; one of
    higher rank as its first d, its first c.
    ncnn differs: rows of the second input that reach beyond those of the first continue in the next
    rows of the same channel; beyond the channel the result is undefined and vknn refuses it.
    """
    x, part = c.inputs
    c.require(x.type.dtype is part.type.dtype, f"puts {part.type} into {x.type}")
    if shape(part) == shape(x):
        return part
    sizes, starts = with_rank(shape(x), 4), _starts(c)
    part = _with_axes_of(c, part)
    block = shape(part)
    room = math.prod(sizes[1:])
    places = _places(starts[1:], block[1:], sizes[1:])
    c.require(
        0 <= starts[0] <= sizes[0] - block[0] and places.min() >= 0 and places.max() < room,
        f"{list(shape(c.inputs[1]))} at {starts} (c, d, h, w) reaches beyond {list(shape(x))}",
    )
    whole = c.reshape(x, (1, *sizes))
    if any(a < 0 or a + n > size for a, n, size in zip(starts, block, sizes, strict=True)):
        part = _overflowing_copy(c, whole, part, starts[0], places)
        starts = [starts[0], 0, 0, 0]
    return c.reshape(c.add(SliceUpdate((0, *starts)), whole, part), x.type.dims)


def _with_axes_of(c: Context[CopyToParams], part: Value) -> Value:
    """The part as (1, c, d, h, w), at index 0 of the axes that the first input lacks."""
    sizes = with_rank(shape(part), 4)
    part = c.reshape(part, (1, *sizes))
    lacking = {1: (1, 2), 2: (1, 2), 3: (2,), 4: ()}[rank(c.x)]
    cut = tuple(a for a in lacking if sizes[a - 1] > 1)
    ones = (1,) * len(cut)
    return c.add(Slice((0,) * len(cut), ones, cut, ones), part) if cut else part


def _starts(c: Context[CopyToParams]) -> list[int]:
    """Offsets of the part along c, d, h and w."""
    p, sizes = c.params, shape(c.x)
    n = len(sizes)
    names = axis_names(n)
    if not p.starts:
        offsets = [getattr(p, f"{name}offset") for name in names]
    else:
        axes = [a + n if a < 0 else a for a in p.axes] or list(range(min(n, len(p.starts))))
        c.require(all(0 <= a < n for a in axes), f"axes {list(p.axes)} do not suit {list(sizes)}")
        offsets = [0] * n
        for axis, start in zip(axes, p.starts, strict=False):
            offsets[axis] = 0 if start == _OPEN else start + sizes[axis] if start < 0 else start
    named = dict(zip(names, offsets, strict=True))
    return [named.get(name, 0) for name in "cdhw"]


def _places(starts: Sequence[int], block: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Offset in a channel of each element of a channel of the part, in the order of memory."""
    places = np.zeros((1,) * len(sizes), np.int64)
    for axis, (start, count, size) in enumerate(zip(starts, block, sizes, strict=True)):
        along = np.arange(start, start + count, dtype=np.int64)
        places = places * size + along.reshape([-1 if a == axis else 1 for a in range(len(sizes))])
    return places.reshape(-1)


def _overflowing_copy(
    c: Context[CopyToParams], whole: Value, part: Value, first: int, places: np.ndarray
) -> Value:
    """The channels that the part is copied to, its elements at ``places`` (the last one wins)."""
    count, sizes = shape(part)[0], shape(whole)[1:]
    room = math.prod(sizes)
    channels = c.add(Slice((first,), (first + count,), (1,), (1,)), whole)
    both = c.add(
        Concat(axis=2),
        c.reshape(channels, (1, count, room)),
        c.reshape(part, (1, count, places.size)),
    )
    sources = np.arange(room, dtype=np.int32)
    sources[places] = np.arange(room, room + places.size, dtype=np.int32)
    mixed = c.add(Gather(axis=2), both, c.constant(sources, "places"))
    return c.reshape(mixed, (1, count, *sizes))
