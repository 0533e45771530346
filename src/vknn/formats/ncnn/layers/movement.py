"""Layers that move elements: Concat, Slice, Reshape, Permute, Padding, and their kin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vknn.formats.ncnn.context import Context, axis_of, rank, shape
from vknn.formats.ncnn.expression import evaluate, size_named
from vknn.formats.ncnn.layers.padded import flat_pads
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.problems import Unsupported
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value
from vknn.ops.movement import ChannelShuffle, Concat, Pad, Slice, Transpose

_UNSET = -233
_NO_BATCH = 233


@dataclass(frozen=True)
class ConcatParams(Params):
    axis: int = param(0)


@layer("Concat", params=ConcatParams, bottoms=(1, None), accepts=ANY, result=same_type)
def concat(c: Context[ConcatParams]) -> Value:
    axis = axis_of(c, c.x, c.params.axis)
    ranks = {rank(x) for x in c.inputs}
    c.require(len(ranks) == 1, f"its inputs differ in rank: {[list(shape(x)) for x in c.inputs]}")
    return c.x if len(c.inputs) == 1 else c.add(Concat(axis=axis), *c.inputs)


@dataclass(frozen=True)
class SliceParams(Params):
    slices: tuple[int, ...] = param(0, ())
    axis: int = param(1)
    indices: tuple[int, ...] = param(2, ())


@layer("Slice", params=SliceParams, tops=(1, None), accepts=ANY, result=same_type)
def slice_(c: Context[SliceParams]) -> Sequence[Value]:
    """Consecutive parts along an axis; what the sizes leave over is dropped."""
    axis = axis_of(c, c.x, c.params.axis)
    total = c.x.type.dims[axis]
    edges = _slice_edges(c, total, len(c.record.tops))
    good = all(0 <= a < b <= total for a, b in itertools.pairwise(edges))
    c.require(good, f"cannot cut {total} elements at {edges}")
    return [
        c.add(Slice(starts=(a,), ends=(b,), axes=(axis,), steps=(1,)), c.x)
        for a, b in itertools.pairwise(edges)
    ]


def _slice_edges(c: Context[SliceParams], total: int, parts: int) -> list[int]:
    if c.params.indices:
        inner = [i + total if i < 0 else i for i in c.params.indices]
        c.require(len(inner) >= parts - 1, f"{len(inner)} indices for {parts} outputs")
        return [0, *inner[: parts - 1], total]
    c.require(len(c.params.slices) >= parts, f"{len(c.params.slices)} sizes for {parts} outputs")
    edges = [0]
    for left, size in zip(range(parts, 0, -1), c.params.slices, strict=False):
        edges.append(edges[-1] + ((total - edges[-1]) // left if size == _UNSET else size))
    return edges


@dataclass(frozen=True)
class ReshapeParams(Params):
    """Parameters of Reshape. The rank is the number of sizes given."""

    w: int = param(0, _UNSET)
    h: int = param(1, _UNSET)
    d: int = param(11, _UNSET)
    c: int = param(2, _UNSET)
    permute: int = param(3)
    shape_expr: str = param(6, "")
    input_batch_axis: int = param(12, _NO_BATCH)
    output_batch_axis: int = param(13, _NO_BATCH)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes asked for, outermost first."""
        if self.w == _UNSET:
            return ()
        if self.h == _UNSET:
            return (self.w,)
        if self.c == _UNSET:
            return self.h, self.w
        if self.d == _UNSET:
            return self.c, self.h, self.w
        return self.c, self.d, self.h, self.w

    def check(self) -> None:
        if (self.input_batch_axis, self.output_batch_axis) != (_NO_BATCH, _NO_BATCH):
            raise Unsupported("batch axes (parameters 12 and 13)")
        if self.permute:
            raise Unsupported("permute (parameter 3)")
        if not self.shape_expr:
            require(len(self.sizes) > 0, "no size is given")
            require(min(self.sizes) >= -1, f"sizes {self.sizes}")
            require(self.sizes.count(-1) <= 1, f"more than one size is -1: {self.sizes}")


@layer("Reshape", params=ReshapeParams, bottoms=(1, None), accepts=ANY, result=same_type)
def reshape(c: Context[ReshapeParams]) -> Value:
    """0 keeps the size of the same-named axis, -1 takes what is left."""
    sizes = c.params.sizes
    if c.params.shape_expr:
        # Expressions list the innermost axis first: w, h, d, c.
        sizes = evaluate(c.params.shape_expr, [shape(x) for x in c.inputs])[::-1]
    c.require(1 <= len(sizes) <= 4, f"{len(sizes)} axes are asked for")
    names = ("w", "hw", "chw", "cdhw")[len(sizes) - 1]
    own = shape(c.x)
    wanted = [n or size_named(own, name) for n, name in zip(sizes, names, strict=True)]
    total = math.prod(own)
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0:
        wanted[wanted.index(-1)] = total // known
    c.require(
        min(wanted) > 0 and math.prod(wanted) == total,
        f"{list(own)} has {total} elements and does not fit into {list(sizes)}",
    )
    return c.reshape(c.x, (1, *wanted))


@layer("Flatten", accepts=ANY, result=same_type)
def flatten(c: Context[Any]) -> Value:
    return c.reshape(c.x, (1, math.prod(shape(c.x))))


@dataclass(frozen=True)
class SqueezeParams(Params):
    w: int = param(0)
    h: int = param(1)
    d: int = param(11)
    c: int = param(2)
    axes: tuple[int, ...] = param(3, ())


@layer("Squeeze", params=SqueezeParams, accepts=ANY, result=same_type)
def squeeze(c: Context[SqueezeParams]) -> Value:
    """Removes axes of size 1 among those named; one axis always stays."""
    sizes = shape(c.x)
    names = ("w", "hw", "chw", "cdhw")[len(sizes) - 1]
    if c.params.axes:
        # ncnn passes over axes that do not exist.
        chosen = {a + len(sizes) if a < 0 else a for a in c.params.axes}
    else:
        chosen = {i for i, name in enumerate(names) if getattr(c.params, name)}
    kept = tuple(n for i, n in enumerate(sizes) if n != 1 or i not in chosen)
    return c.reshape(c.x, (1, *(kept or (1,))))


@dataclass(frozen=True)
class ExpandDimsParams(Params):
    axes: tuple[int, ...] = param(3, ())


@layer("ExpandDims", params=ExpandDimsParams, accepts=ANY, result=same_type)
def expand_dims(c: Context[ExpandDimsParams]) -> Value:
    """Inserts axes of size 1; ``axes`` are positions in the result."""
    count = rank(c.x) + len(c.params.axes)
    c.require(count <= 4, f"{count} axes are too many")
    axes = {a + count if a < 0 else a for a in c.params.axes}
    good = len(axes) == len(c.params.axes) and all(0 <= a < count for a in axes)
    c.require(good, f"axes {list(c.params.axes)} do not suit {list(shape(c.x))}")
    sizes = iter(shape(c.x))
    return c.reshape(c.x, (1, *(1 if i in axes else next(sizes) for i in range(count))))


#: Rank -> order_type -> axes of the input (c, d, h, w as they exist), innermost first.
_ORDERS = {
    1: ("w",),
    2: ("wh", "hw"),
    3: ("whc", "hwc", "wch", "cwh", "hcw", "chw"),
    4: (
        *("whdc", "hwdc", "wdhc", "dwhc", "hdwc", "dhwc"),
        *("whcd", "hwcd", "wchd", "cwhd", "hcwd", "chwd"),
        *("wdch", "dwch", "wcdh", "cwdh", "dcwh", "cdwh"),
        *("hdcw", "dhcw", "hcdw", "chdw", "dchw", "cdhw"),
    ),
}


@dataclass(frozen=True)
class PermuteParams(Params):
    order_type: int = param(0)

    def check(self) -> None:
        require(0 <= self.order_type < len(_ORDERS[4]), f"unknown order_type {self.order_type}")


@layer("Permute", params=PermuteParams, accepts=ANY, result=same_type)
def permute(c: Context[PermuteParams]) -> Value:
    orders, order = _ORDERS[rank(c.x)], c.params.order_type
    if rank(c.x) == 1:
        return c.x
    c.require(order < len(orders), f"order_type {order} does not exist for rank {rank(c.x)}")
    names = orders[0][::-1]
    perm = (0, *(names.index(axis) + 1 for axis in reversed(orders[order])))
    return c.x if perm == tuple(range(len(perm))) else c.add(Transpose(perm=perm), c.x)


_PAD_MODES = ("constant", "edge", "reflect")


@dataclass(frozen=True)
class PaddingParams(Params):
    """Parameters of Padding."""

    top: int = param(0)
    bottom: int = param(1)
    left: int = param(2)
    right: int = param(3)
    type: int = param(4)
    value: float = param(5, 0.0)
    per_channel_pad_data_size: int = param(6)
    front: int = param(7)
    behind: int = param(8)

    def check(self) -> None:
        require(0 <= self.type < len(_PAD_MODES), f"unknown padding type {self.type}")
        sizes = (self.top, self.bottom, self.left, self.right, self.front, self.behind)
        require(min(sizes) >= 0, f"negative padding {sizes}")


def _padding_weights(p: PaddingParams) -> list[WeightSpec]:
    size = p.per_channel_pad_data_size
    return [WeightSpec("per_channel_pad_data", (size,))] if size else []


@layer("Padding", params=PaddingParams, weights=_padding_weights, accepts=ANY, result=same_type)
def padding(c: Context[PaddingParams]) -> Value:
    """front and behind pad the channels of a 3-D blob and the depth of a 4-D one."""
    p, n = c.params, rank(c.x)
    pads = [(p.left, p.right)]
    if n >= 2:
        pads.insert(0, (p.top, p.bottom))
    if n >= 3:
        pads.insert(0, (p.front, p.behind))
    full = ((0, 0),) * (n + 1 - len(pads)) + tuple(pads)
    if not any(flat_pads(full)):
        return c.x
    mode, value = _PAD_MODES[p.type], p.value
    if c.x.type.dtype.is_integer:
        value = float(int(value))
    op = Pad(pads=flat_pads(full), mode=mode, value=value)
    if n < 3 or not c.weights or mode != "constant":
        return c.add(op, c.x)
    c.require(c.x.type.dtype is DType.FLOAT32, "values per channel take float32")
    channels = shape(c.x)[0] + sum(full[1])
    values = c.weight("per_channel_pad_data")
    c.require(values.size == channels, f"{values.size} values for {channels} output channels")
    return c.add(op, c.x, c.constant(values, "values"))


@dataclass(frozen=True)
class ShuffleParams(Params):
    group: int = param(0, 1)
    reverse: int = param(1)

    def check(self) -> None:
        require(self.group > 0, f"group {self.group} must be positive")


@layer("ShuffleChannel", params=ShuffleParams, accepts=ANY, result=same_type)
def shuffle_channel(c: Context[ShuffleParams]) -> Value:
    """(group, c / group) channels transposed; ``reverse`` undoes it."""
    c.require(rank(c.x) >= 3, f"takes a 3-D or 4-D blob, not {list(shape(c.x))}")
    channels, group = shape(c.x)[0], c.params.group
    c.require(channels % group == 0, f"{channels} channels are not divisible by group {group}")
    if c.params.reverse:
        group = channels // group
    return c.add(ChannelShuffle(group=group), c.x)
