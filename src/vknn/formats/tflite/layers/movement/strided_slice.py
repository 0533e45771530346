"""STRIDED_SLICE: Python's own slicing, spelled with masks."""

from __future__ import annotations

from typing import NamedTuple

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.movement.shape import Slice

#: What becomes of an axis of the output, or the number of its entry in begin, end and strides.
_WHOLE, _NEW = -1, -2


class _Cut(NamedTuple):
    """One axis: start, stop and step as Python's slices have them, and whether it goes."""

    start: int
    stop: int
    step: int
    drop: bool = False


@operator("STRIDED_SLICE", inputs=4, takes_quantized=True)
def strided_slice(c: Context) -> Value:
    """begin:end:stride along each axis.

    Masks by bit i: begin and end ignore their entry, ellipsis stands for the axes that are not
    named, new axis inserts one, shrink takes one index and drops the axis. ``offset`` makes ends
    relative to begins. As in TensorFlow Lite's kernel an ellipsis stands for one axis at least, and
    entries that this leaves no axis for are passed over.

    TensorFlow Lite differs: what it gives for an index behind the last element, or for an offset
    that leads out of the tensor, is not defined; vknn refuses both.
    """
    entries = [c.ints(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "the strides"))]
    sizes = {len(e) for e in entries}
    c.require(len(sizes) == 1, f"has begins, ends and strides of {sorted(sizes)} numbers")
    specs = list(zip(*entries, strict=True))
    axes = iter(range(c.x.type.rank))
    cuts: list[tuple[int, _Cut]] = []
    shape: list[str] = []
    for number in _axes(c, len(specs)):
        if number == _NEW:
            shape.append("new")
            continue
        axis = next(axes, None)
        if axis is None:
            c.fail(f"slices more axes than {c.x.type} has")
        if number == _WHOLE:
            shape.append("keep")
        else:
            cut = _cut(c, number, specs[number], c.x.type.dims[axis])
            cuts.append((axis, cut))
            shape.append("drop" if cut.drop else "keep")
    c.require(next(axes, None) is None, f"slices fewer axes than {c.x.type} has")
    return _shaped(c, _taken(c, cuts), shape)


def _taken(c: Context, cuts: list[tuple[int, _Cut]]) -> Value:
    if not cuts:
        return c.x
    starts, stops, steps = (tuple(cut[i] for _, cut in cuts) for i in range(3))
    return c.add(Slice(starts, stops, tuple(axis for axis, _ in cuts), steps), c.x)


def _shaped(c: Context, x: Value, shape: list[str]) -> Value:
    sizes = iter(x.type.dims)
    dims: list[int] = []
    for kind in shape:
        size = 1 if kind == "new" else next(sizes)
        if kind != "drop":
            dims.append(size)
    return c.reshape(x, dims)


def _axes(c: Context, count: int) -> list[int]:
    """For each axis of the output, before any is dropped, its entry or what else it is."""
    o, rank = c.options, c.x.type.rank
    ellipsis, new = o["ellipsis_mask"], o["new_axis_mask"]
    added = sum(1 for i in range(count) if not ellipsis >> i & 1 and new >> i & 1)
    total = rank + added
    found: list[int] = []
    expanded = 0  # the axes that the ellipsis stands for beyond its first
    while len(found) < total:
        place = len(found)
        entry = place - expanded
        if place < count and ellipsis >> place & 1:
            end = max(place + 1, min(place + 1 + total - count, total))
            expanded = end - place - 1
            found += [_WHOLE] * (end - place)
        elif entry >= count:
            found.append(_WHOLE)
        else:
            found.append(_NEW if new >> entry & 1 else entry)
    return found


def _cut(c: Context, i: int, spec: tuple[int, ...], size: int) -> _Cut:
    o, (begin, end, step) = c.options, spec
    c.require(step != 0, f"has a stride of 0 along entry {i}")
    first_masked, last_masked = bool(o["begin_mask"] >> i & 1), bool(o["end_mask"] >> i & 1)
    if o["shrink_axis_mask"] >> i & 1:
        index = 0 if first_masked else max(begin + size if begin < 0 else begin, 0)
        c.require(index < size, f"takes index {begin} of {size}")
        return _Cut(index, index + 1, 1, drop=True)
    far = (1 << 31) - 1
    first = (0 if step > 0 else far) if first_masked else begin
    if o["offset"]:
        return _offset_cut(c, _Cut(first, end, step), size)
    last = (far if step > 0 else -far) if last_masked else end
    return _Cut(first, last, step)


def _offset_cut(c: Context, cut: _Cut, size: int) -> _Cut:
    """The cut whose end counts from its start."""
    start = slice(cut.start, None, cut.step).indices(size)[0]
    stop = start + cut.stop
    c.require(0 <= stop <= size, f"ends {cut.stop} behind {cut.start} of {size}")
    return _Cut(start, stop, cut.step)
