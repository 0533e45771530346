"""Operators that cut, join and pad."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.axes import int_values, normal_axes
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.rearrange import DepthToSpace, SpaceToDepth
from vknn.ops.movement.shape import Concat, Identity, Pad, Slice

_MODES = ("constant", "reflect", "edge", "wrap")
#: What files write for "to the end".
_LARGEST = ((1 << 31) - 1, (1 << 63) - 1)


@operator("Concat", 1, 4, 11, 13, inputs=(1, None), any_type=True)
def concat(c: Context) -> Value:
    """All inputs, one behind the other along an axis"""
    values = [c.value(number) for number in range(len(c.inputs))]
    axis = c.axis(c.int("axis", 1) if c.version == 1 else c.int("axis"), c.rank)
    return c.add(Concat(axis), *values)


@operator("Slice", 1, any_type=True)
def slice_by_attributes(c: Context) -> Value:
    """A part of each axis"""
    starts, ends = c.int_list("starts"), c.int_list("ends")
    axes = c.int_list("axes", tuple(range(len(starts))))
    return _sliced(c, list(starts), list(ends), list(axes), [1] * len(starts))


@operator("Slice", 10, 11, 13, inputs=(3, 5), any_type=True)
@operator("DynamicSlice", 1, inputs=(3, 4), any_type=True)
def slice_by_inputs(c: Context) -> Value:
    """A part of each axis, every so many elements of it"""
    starts, ends = c.vector(1, "starts"), c.vector(2, "ends")
    axes = list(range(len(starts))) if c.optional(3) is None else c.vector(3, "axes")
    steps = [1] * len(starts) if c.optional(4) is None else c.vector(4, "steps")
    return _sliced(c, starts, ends, axes, steps)


def _sliced(
    c: Context, starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> Value:
    same = len(starts) == len(ends) == len(axes) == len(steps)
    c.require(same, f"has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes")
    c.require(0 not in steps, "has a step of 0")
    places = normal_axes(c, axes, c.rank)
    dims = c.x.type.dims
    # Clamped here: files write the largest and the smallest int64 for ends.
    parts = [
        _clamped(s, e, k, dims[a]) for s, e, a, k in zip(starts, ends, places, steps, strict=True)
    ]
    begins = [begin for begin, _ in parts]
    stops = [
        stop if stop >= 0 else -dims[a] - 1 for (_, stop), a in zip(parts, places, strict=True)
    ]
    return c.add(Slice(tuple(begins), tuple(stops), tuple(places), tuple(steps)), c.x)


def _clamped(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """The place of the first element, and that behind the last, -1 before the first of the axis.

    Backwards a start before the axis is its first element, other than in Python. The largest
    numbers are the end of the way, whichever way it goes.
    """
    if step < 0 and end in _LARGEST:
        return max(min(start + size if start < 0 else start, size - 1), 0), -1
    start, end = (v + size if v < 0 else v for v in (start, end))
    if step > 0:
        return min(max(start, 0), size), min(max(end, 0), size)
    return max(min(start, size - 1), 0), max(min(end, size - 1), -1)


def _first_sizes(c: Context) -> list[int] | None:
    """The sizes of the first version, whose input has the type of what is split."""
    if c.optional(1) is None:
        return list(c.int_list("split", ())) or None
    given = c.data(1).astype(np.float64).reshape(-1)
    whole = np.isfinite(given).all() and not np.mod(given, 1).any()
    c.require(bool(whole), f"splits in parts of {given.tolist()}")
    return [int(size) for size in given]


@operator("Split", 1, 2, 11, 13, 18, inputs=(1, 2), outputs=(1, None), any_type=True)
def split(c: Context) -> list[Value]:
    """Parts along an axis, of the sizes given or of equal ones"""
    axis, count = c.axis(c.int("axis", 0), c.rank), len(c.node.outputs)
    sizes = _first_sizes(c) if c.version == 1 else int_values(c, "split", 1, 13)
    if c.version >= 18:
        stated = (sizes is not None) + c.has("num_outputs")
        c.require(stated == 1, "needs either sizes or num_outputs, and not both")
    total = c.x.type.dims[axis]
    if sizes is None:
        count = c.int("num_outputs", count) if c.version >= 18 else count
        c.require(0 < count <= 1 << 16, f"splits into {count} parts")
        piece = -(-total // count)
        c.require(c.version >= 18 or total % count == 0, f"cannot split {total} in {count} parts")
        sizes = [max(0, min(piece, total - piece * i)) for i in range(count)]
    good = min(sizes, default=0) >= 0 and sum(sizes) == total
    c.require(good, f"splits an axis of {total} in {sizes}")
    outputs = len(c.node.outputs)
    c.require(len(sizes) == outputs, f"splits in {len(sizes)} parts and has {outputs} outputs")
    ends = np.cumsum(sizes).tolist()
    return [
        c.add(Slice((end - size,), (end,), (axis,)), c.x)
        for size, end in zip(sizes, ends, strict=True)
    ]


@operator("Pad", 1, 2, 11, 13, 18, 19, 21, 23, 24, 25, inputs=(1, 4), any_type=True)
@operator("Pad", 1, inputs=(2, 3), domain=MICROSOFT, any_type=True)
def pad(c: Context) -> Value:
    """More elements at both ends of axes, or where a pad is negative fewer"""
    mode = c.text("mode", "constant", _MODES)
    pads, value = _pads(c)
    rank = c.rank
    c.require(len(pads) == 2 * rank, f"has {len(pads)} pads for {c.x.type}")
    c.require(max(map(abs, pads), default=0) < MAX_ELEMENTS, f"has the impossible pads {pads}")
    x = c.x
    if min(pads, default=0) < 0:
        if mode == "constant":
            pads = _cropped_padding(x.type.dims, pads)
        begins = [max(0, -p) for p in pads[:rank]]
        ends = [d - max(0, -p) for d, p in zip(x.type.dims, pads[rank:], strict=True)]
        good = all(0 <= b <= e for b, e in zip(begins, ends, strict=True))
        c.require(good, f"crops {x.type} by {pads}")
        x = c.add(Slice(tuple(begins), tuple(ends)), x)
        pads = [max(0, p) for p in pads]
    if not any(pads):
        return c.add(Identity(), x)
    if mode == "constant":
        if isinstance(value, Value):
            return _padded_with(c, x, pads, value)
        return c.add(Pad(tuple(pads), "constant", value), x)
    near = all(max(pads[a], pads[a + rank]) < max(d, 1) for a, d in enumerate(x.type.dims))
    if mode in ("edge", "reflect") and near and x.type.size:
        return c.add(Pad(tuple(pads), mode), x)
    for axis, size in enumerate(x.type.dims):
        before, after = pads[axis], pads[axis + rank]
        if before or after:
            c.require(size > 0, f"cannot pad the empty axis {axis} of {x.type} by {mode}")
            c.makeable(size + before + after, DType.INT32)
            places = np.pad(np.arange(size, dtype=np.int32), (before, after), mode=mode)  # type: ignore[call-overload]
            x = c.add(Gather(axis), x, c.constant(places, f"places{axis}"))
    return x


@operator("CenterCropPad", 18, inputs=2, any_type=True)
def center_crop_pad(c: Context) -> Value:
    """The middle of each axis, or the axis in the middle of zeros, of the sizes given"""
    axes = normal_axes(c, c.int_list("axes", tuple(range(c.rank))), c.rank)
    wanted = c.ints(1, "shape")
    good = len(wanted) == len(axes) and min(wanted, default=0) >= 0
    c.require(good and max(wanted, default=0) < MAX_ELEMENTS, f"has the shape {wanted} for {axes}")
    x, pads = c.x, [0] * (2 * c.rank)
    begins, ends = [0] * c.rank, list(x.type.dims)
    for axis, size in zip(axes, wanted, strict=True):
        more = size - x.type.dims[axis]
        if more < 0:
            begins[axis] = -more // 2
            ends[axis] = begins[axis] + size
        else:
            pads[axis], pads[axis + c.rank] = more // 2, more - more // 2
    if ends != list(x.type.dims):
        x = c.add(Slice(tuple(begins), tuple(ends)), x)
    return c.add(Pad(tuple(pads)) if any(pads) else Identity(), x)


def _padded_with(c: Context, x: Value, pads: list[int], value: Value) -> Value:
    """``x`` with pads of a value that no float holds: its elements and the value, by places."""
    count, rank = x.type.size, x.type.rank
    c.require(value.type.dtype is x.type.dtype, f"pads {x.type} with {value.type}")
    widths = list(zip(pads[:rank], pads[rank:], strict=True))
    c.makeable(math.prod(d + sum(w) for d, w in zip(x.type.dims, widths, strict=True)), DType.INT32)
    places = np.pad(
        np.arange(count, dtype=np.int32).reshape(x.type.dims), widths, constant_values=count
    )
    every = c.add(Concat(0), c.reshape(x, (count,)), c.reshape(value, (1,)))
    return c.add(Gather(0), every, c.constant(places, "places"))


def _cropped_padding(dims: Sequence[int], pads: Sequence[int]) -> list[int]:
    """Pads of which none crops more than its axis has: what it lacks is of the other end's padding.

    So has onnxruntime it.
    """
    found, rank = list(pads), len(dims)
    for end, other in zip(range(2 * rank), (*range(rank, 2 * rank), *range(rank)), strict=True):
        lacking = -found[end] - dims[end % rank]
        if lacking > 0 and found[other] > 0:
            found[end] += lacking
            found[other] -= lacking
    return found


def _pads(c: Context) -> tuple[list[int], float | Value]:
    """Pads of all axes, begins before ends, and the value of new elements."""
    if c.version < 11 and not c.node.key[0]:
        pads = c.int_list("pads" if c.version > 1 else "paddings")
        return list(pads), c.float("value", 0.0)
    pads, listed = c.ints(1, "pads"), c.value(1).type
    flat = listed.rank == 1 or (listed.rank == 2 and listed.dims[0] == 1)
    c.require(flat, f"has the pads {listed}, which must have one axis")
    if c.optional(3) is not None:
        axes = normal_axes(c, c.vector(3, "axes"), c.rank)
        c.require(len(pads) == 2 * len(axes), f"has {len(pads)} pads for {len(axes)} axes")
        full = [0] * (2 * c.rank)
        for number, axis in enumerate(axes):
            full[axis], full[axis + c.rank] = pads[number], pads[number + len(axes)]
        pads = full
    if c.optional(2) is None or c.value(2).type.size == 0:
        text = c.x.type.dtype is DType.STRING
        return pads, c.constant(np.array(b"", object), "nothing") if text else 0.0
    if c.x.type.dtype in (DType.STRING, DType.COMPLEX64, DType.COMPLEX128):
        c.require(c.value(2).type.size == 1, f"has the constant_value {c.value(2).type}")
        return pads, c.value(2)
    number = c.number(2, "constant_value")
    exact = isinstance(number, float) or abs(int(number)) <= 1 << 53
    return pads, float(number) if exact else c.value(2)


@operator("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(c: Context) -> Value:
    """Channels moved into blocks of space"""
    c.require(c.rank == 4, f"takes images, not {c.x.type}")
    return c.add(DepthToSpace(c.int("blocksize"), c.text("mode", "DCR", ("DCR", "CRD"))), c.x)


@operator("SpaceToDepth", 1, 13, 28)
def space_to_depth(c: Context) -> Value:
    """Blocks of space moved into channels"""
    c.require(c.rank == 4, f"takes images, not {c.x.type}")
    return c.add(SpaceToDepth(c.int("blocksize"), c.text("mode", "DCR", ("DCR", "CRD"))), c.x)
