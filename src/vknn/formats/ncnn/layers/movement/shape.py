"""Concat, Slice, Reshape, Flatten, Squeeze, ExpandDims, Permute, Padding, ShuffleChannel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.formats.ncnn.axes import axis_names, size_of_axis, with_rank
from vknn.formats.ncnn.context import Context, axis_of, rank, shape
from vknn.formats.ncnn.params import P, Params, param, require, require_axes
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.formats.ncnn.shape_expression import evaluate
from vknn.formats.ncnn.weights import WeightSpec
from vknn.formats.windows import flat_pads
from vknn.graph import Value, attributes
from vknn.ops.movement.shape import ChannelShuffle, Concat, Pad, Slice, Transpose

_UNSET = -233
_NO_BATCH = 233


@attributes
class ConcatParams(Params):
    """Parameters of Concat."""

    axis: int = param(0)


@layer("Concat", params=ConcatParams, inputs=(1, None), accepts=ANY, result=same_type)
def concat(c: Context[ConcatParams]) -> Value:
    """Concatenation of blobs along an axis.

    ncnn differs: other inputs are read as blobs of the first one's rank by the names of their axes
    (a 2-D blob is one channel of a 3-D one). Of a blob with further axes ncnn reads a part; vknn
    refuses it.
    ncnn differs: 1-D blobs are joined whatever axis is.
    """
    n = rank(c.x)
    axis = 1 if n == 1 else axis_of(c, c.x, c.params.axis)
    parts = [_as_rank(c, x, n) for x in c.inputs]
    return parts[0] if len(parts) == 1 else c.add(Concat(axis=axis), *parts)


def _as_rank(c: Context[P], x: Value, count: int) -> Value:
    sizes = with_rank(shape(x), count)
    if math.prod(sizes) != math.prod(shape(x)):
        c.fail(f"its inputs differ in rank: {[list(shape(x)) for x in c.inputs]}")
    return c.reshape(x, (1, *sizes))


@attributes
class SliceParams(Params):
    """Parameters of Slice."""

    slices: tuple[int, ...] = param(0, ())
    axis: int = param(1)
    indices: tuple[int, ...] = param(2, ())

    def check(self) -> None:
        good = all(n > 0 or n == _UNSET for n in self.slices)
        require(good, f"slices {list(self.slices)} must be positive or {_UNSET}")
        require_axes((self.axis,))


@layer("Slice", params=SliceParams, outputs=(1, None), accepts=ANY, result=same_type)
def slice_(c: Context[SliceParams]) -> Sequence[Value]:
    """Consecutive parts along an axis; elements beyond the sum of the sizes are dropped.

    ncnn differs: on x86, sizes that leave a rest along w, or along h of a 4-D blob, make it read
    rows of the wrong length.
    """
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


@attributes
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
    def by_batch(self) -> bool:
        """True where an axis becomes the batch, or the batch an axis."""
        return (self.input_batch_axis, self.output_batch_axis) != (_NO_BATCH, _NO_BATCH)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the new shape, outermost axis first."""
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
        if not self.shape_expr:
            require(len(self.sizes) > 0, "no size is given")
            require(min(self.sizes) >= -1, f"sizes {self.sizes}")
            require(self.sizes.count(-1) <= 1, f"more than one size is -1: {self.sizes}")


@layer(
    "Reshape",
    params=ReshapeParams,
    inputs=(1, None),
    accepts=ANY,
    result=same_type,
    batched=lambda p: p.by_batch,
)
def reshape(c: Context[ReshapeParams]) -> Value:
    """The input in a new shape: 0 keeps the size of the axis of the same name, -1 is inferred.

    ncnn differs: permute (parameter 3) is documented but was removed; it has no effect.
    ncnn differs: a 2-D or 1-D blob that has the wanted outermost size is returned unchanged,
    whatever the other sizes are; vknn refuses sizes that do not fit.
    """
    sizes = c.params.sizes
    if c.params.shape_expr:
        # Expressions list the innermost axis first: w, h, d, c.
        batches = [x.type.dims[0] for x in c.inputs]
        sizes = evaluate(c.params.shape_expr, [shape(x) for x in c.inputs], batches)[::-1]
    if c.params.by_batch:
        return _reshape_batch(c, sizes)
    c.require(1 <= len(sizes) <= 4, f"{len(sizes)} axes are asked for")
    names = axis_names(len(sizes))
    own = shape(c.x)
    wanted = [n or size_of_axis(own, name) for n, name in zip(sizes, names, strict=True)]
    return c.reshape(c.x, (1, *_filled(c, wanted, own)))


def _filled(c: Context[P], wanted: list[int], own: Sequence[int]) -> tuple[int, ...]:
    """``wanted`` with its -1, if there is one, inferred. Raises Malformed."""
    total, sizes = math.prod(own), list(wanted)
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0:
        wanted[wanted.index(-1)] = total // known
    c.require(
        min(wanted) > 0 and math.prod(wanted) == total,
        f"{list(own)} has {total} elements and does not fit into {sizes}",
    )
    return tuple(wanted)


def _reshape_batch(c: Context[ReshapeParams], sizes: tuple[int, ...]) -> Value:
    """Reshape with batch axes: 0 keeps the size at the same position, the batch included."""
    n, *own = c.x.type.dims
    axis = c.params.input_batch_axis
    x = c.x
    if axis == _NO_BATCH:
        c.require(n == 1, f"a batch of {n} needs input_batch_axis (parameter 12)")
        x = c.reshape(x, tuple(own))
    else:
        axis = _batch_axis(c, axis, len(own) + 1)
        perm = (*range(1, axis + 1), 0, *range(axis + 1, len(own) + 1))
        x = c.add(Transpose(perm=perm), x)
    have = x.type.dims
    c.require(1 <= len(sizes) <= 5, f"{len(sizes)} axes are asked for")
    copied = all(size or i < len(have) for i, size in enumerate(sizes))
    c.require(copied, f"{list(sizes)} keeps axes that {list(have)} does not have")
    wanted = [size or have[i] for i, size in enumerate(sizes)]
    x = c.reshape(x, _filled(c, wanted, have))
    axis = c.params.output_batch_axis
    if axis == _NO_BATCH:
        c.require(len(sizes) <= 4, f"{len(sizes)} axes are asked for")
        return c.reshape(x, (1, *x.type.dims))
    axis = _batch_axis(c, axis, len(sizes))
    c.require(len(sizes) > 1, "nothing is left beside the batch")
    others = [a for a in range(len(sizes)) if a != axis]
    return x if axis == 0 else c.add(Transpose(perm=(axis, *others)), x)


def _batch_axis(c: Context[P], axis: int, count: int) -> int:
    c.require(-count <= axis < count, f"batch axis {axis} does not exist among {count}")
    return axis % count


@layer("Flatten", accepts=ANY, result=same_type)
def flatten(c: Context[Any]) -> Value:
    """The elements as a vector."""
    return c.reshape(c.x, (1, math.prod(shape(c.x))))


@attributes
class SqueezeParams(Params):
    """Parameters of Squeeze."""

    w: int = param(0)
    h: int = param(1)
    d: int = param(11)
    c: int = param(2)
    axes: tuple[int, ...] = param(3, ())

    def check(self) -> None:
        require_axes(self.axes)


@layer("Squeeze", params=SqueezeParams, accepts=ANY, result=same_type)
def squeeze(c: Context[SqueezeParams]) -> Value:
    """The input without those of the given axes that have size 1; one axis always remains."""
    sizes = shape(c.x)
    names = axis_names(len(sizes))
    if c.params.axes:
        # ncnn ignores axes that do not exist.
        chosen = {a + len(sizes) if a < 0 else a for a in c.params.axes}
    else:
        chosen = {i for i, name in enumerate(names) if getattr(c.params, name)}
    kept = tuple(n for i, n in enumerate(sizes) if n != 1 or i not in chosen)
    return c.reshape(c.x, (1, *(kept or (1,))))


@attributes
class ExpandDimsParams(Params):
    """Parameters of ExpandDims."""

    axes: tuple[int, ...] = param(3, ())

    def check(self) -> None:
        require_axes(self.axes)


@layer("ExpandDims", params=ExpandDimsParams, accepts=ANY, result=same_type)
def expand_dims(c: Context[ExpandDimsParams]) -> Value:
    """The input with axes of size 1 at the positions ``axes`` of the result.

    ncnn differs: a blob that would get more than four axes is unchanged. Duplicate axes and axes
    that the result lacks become axes of size 1 in front.
    """
    count = rank(c.x) + len(c.params.axes)
    axes = {a + count if a < 0 else a for a in c.params.axes} & set(range(count))
    if count > 4 or not axes:
        return c.x
    left = count - len(axes)
    sizes = iter((1,) * (left - rank(c.x)) + shape(c.x))
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


@attributes
class PermuteParams(Params):
    """Parameters of Permute."""

    order_type: int = param(0)

    def check(self) -> None:
        require(0 <= self.order_type < len(_ORDERS[4]), f"unknown order_type {self.order_type}")


@layer("Permute", params=PermuteParams, accepts=ANY, result=same_type)
def permute(c: Context[PermuteParams]) -> Value:
    """Transposition of axes, by order_type."""
    orders, order = _ORDERS[rank(c.x)], c.params.order_type
    if rank(c.x) == 1:
        return c.x
    c.require(order < len(orders), f"order_type {order} does not exist for rank {rank(c.x)}")
    names = orders[0][::-1]
    perm = (0, *(names.index(axis) + 1 for axis in reversed(orders[order])))
    return c.x if perm == tuple(range(len(perm))) else c.add(Transpose(perm=perm), c.x)


_PAD_MODES = ("constant", "edge", "reflect")


@attributes
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
    """Padding; front and behind are pads of channels (3-D blobs) or of the depth (4-D blobs)."""
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
    channels = shape(c.x)[0] + sum(full[1])
    values = c.weight("per_channel_pad_data")
    c.require(values.size >= channels, f"{values.size} values for {channels} output channels")
    values = values[:channels]
    if c.x.type.dtype.is_integer:
        c.require(bool((np.abs(values) < 128).all()), "values per channel are beyond int8")
        values = values.astype(c.x.type.dtype.numpy)
    return c.add(op, c.x, c.constant(values, "values"))


@attributes
class ShuffleParams(Params):
    """Parameters of ShuffleChannel."""

    group: int = param(0, 1)
    reverse: int = param(1)

    def check(self) -> None:
        require(self.group > 0, f"group {self.group} must be positive")


@layer("ShuffleChannel", params=ShuffleParams, accepts=ANY, result=same_type)
def shuffle_channel(c: Context[ShuffleParams]) -> Value:
    """Channel shuffle: channels (group, c / group) transposed; ``reverse`` is its inverse."""
    channels = shape(c.x)[0] if rank(c.x) >= 3 else 1
    group = c.params.group
    c.require(channels % group == 0, f"{channels} channels are not divisible by group {group}")
    if rank(c.x) < 3:
        return c.x
    if c.params.reverse:
        group = channels // group
    return c.add(ChannelShuffle(group=group), c.x)
