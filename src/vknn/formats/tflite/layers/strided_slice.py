"""STRIDED_SLICE: Python's own slicing, spelled with masks."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.movement import Slice


@operator("STRIDED_SLICE", inputs=4, moves=True)
def strided_slice(c: Context) -> Value:
    """begin:end:stride along each axis.

    Masks by bit i: begin and end ignore their entry, ellipsis stands for all axes that are not
    named, new axis inserts one, shrink takes one index and drops the axis. ``offset`` makes ends
    relative to begins.
    """
    specs = list(zip(c.ints(1, "begin"), c.ints(2, "end"), c.ints(3, "the strides"), strict=True))
    starts, ends, steps, axes, shape = _read(c, specs)
    cut = c.add(Slice(tuple(starts), tuple(ends), tuple(axes), tuple(steps)), c.x) if axes else c.x
    sizes = iter(cut.type.dims)
    return c.reshape(cut, [d for kind in shape for d in _sizes(kind, sizes)])


def _sizes(kind: str, sizes: object) -> list[int]:
    if kind == "new":
        return [1]
    size = next(sizes)  # type: ignore[call-overload]
    return [] if kind == "drop" else [size]


def _read(
    c: Context, specs: list[tuple[int, int, int]]
) -> tuple[list[int], list[int], list[int], list[int], list[str]]:
    """Slices by axis, and what becomes of each axis: "keep", "drop", or a "new" one."""
    o, rank = c.options, c.x.type.rank
    ellipsis, new = o["ellipsis_mask"], o["new_axis_mask"]
    named = sum(1 for i in range(len(specs)) if not (ellipsis | new) >> i & 1)
    c.require(named <= rank, f"slices {named} axes of {c.x.type}")
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    axes: list[int] = []
    shape: list[str] = []
    axis = 0
    for i, (begin, end, step) in enumerate(specs):
        if ellipsis >> i & 1:
            skipped = rank - named
            shape += ["keep"] * skipped
            axis += skipped
        elif new >> i & 1:
            shape.append("new")
        else:
            size = c.x.type.dims[axis]
            first, last, stride, kind = _one(c, i, begin, end, step, size)
            starts.append(first)
            ends.append(last)
            steps.append(stride)
            axes.append(axis)
            shape.append(kind)
            axis += 1
    shape += ["keep"] * (rank - axis)
    return starts, ends, steps, axes, shape


def _one(
    c: Context, i: int, begin: int, end: int, step: int, size: int
) -> tuple[int, int, int, str]:
    o = c.options
    c.require(step != 0, f"has a stride of 0 along entry {i}")
    if o["shrink_axis_mask"] >> i & 1:
        index = 0 if o["begin_mask"] >> i & 1 else begin
        c.require(-size <= index < size, f"takes index {index} of {size}")
        index %= size
        return index, index + 1, 1, "drop"
    if o["offset"]:
        end += begin
    far = (1 << 31) - 1
    first = (0 if step > 0 else far) if o["begin_mask"] >> i & 1 else begin
    last = (far if step > 0 else -far) if o["end_mask"] >> i & 1 else end
    return first, last, step, "keep"
