"""STRIDED_SLICE: Python slices, with masks for ellipsis, new axes and dropped axes."""

from __future__ import annotations

from typing import NamedTuple

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.movement.shape import Slice

#: An axis of the output before axes are dropped: an entry number of begin, end and strides, an axis
#: that is kept whole, or a new axis.
_WHOLE, _NEW = -1, -2


class _Cut(NamedTuple):
    """Slice of one axis (start, stop and step of Python), and whether the axis is dropped."""

    start: int
    stop: int
    step: int
    drop: bool = False


@operator("STRIDED_SLICE", inputs=4, takes_quantized=True)
def strided_slice(c: Context) -> Value:
    """Slices begin:end:stride along each axis.

    Bit i of a mask is about entry i: begin_mask and end_mask ignore the entry, ellipsis_mask makes
    it stand for all axes without an entry, new_axis_mask for a new axis, and shrink_axis_mask takes
    one index and drops the axis. ``offset`` makes ends relative to begins. As in TensorFlow Lite's
    kernel an ellipsis stands for at least one axis; entries left without an axis are ignored.

    TensorFlow Lite differs: its result is undefined for an index behind the last element and for an
    offset that leads out of the tensor; vknn refuses both.
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
    return _shaped(c, _sliced(c, cuts), shape)


def _sliced(c: Context, cuts: list[tuple[int, _Cut]]) -> Value:
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
    """Axes of the output before any is dropped: an entry number, _WHOLE or _NEW for each."""
    o, rank = c.options, c.x.type.rank
    ellipsis, new = o["ellipsis_mask"], o["new_axis_mask"]
    added = sum(1 for i in range(count) if not ellipsis >> i & 1 and new >> i & 1)
    total = rank + added
    found: list[int] = []
    expanded = 0  # axes of the ellipsis beyond its first
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
    """``cut``, whose stop is relative to its start, with an absolute stop."""
    start = slice(cut.start, None, cut.step).indices(size)[0]
    stop = start + cut.stop
    c.require(0 <= stop <= size, f"ends {cut.stop} behind {cut.start} of {size}")
    return _Cut(start, stop, cut.step)
