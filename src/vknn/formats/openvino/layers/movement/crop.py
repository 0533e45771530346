"""Crop in its three forms, and StridedSlice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.movement.shape import Slice


@layer("Crop", inputs=(1, 2))
def crop(c: Context) -> Value:
    """Part of the input, cut along the axes listed.

    The size that is left is attribute dim (type 2), follows from crop_begin and crop_end (type 3),
    or is that of the second input (type 1).
    """
    axes = [c.axis(axis, c.rank) for axis in c.ints("axis", (1,))]
    c.require(len(set(axes)) == len(axes), f"names an axis twice: {axes}")
    sizes = [c.x.type.dims[axis] for axis in axes]
    begins: Sequence[int]
    kept: Sequence[int]
    if c.has_attribute("crop_begin") or c.has_attribute("crop_end"):
        none = (0,) * len(axes)
        begins = _per_axis(c, "crop_begin", axes, none)
        left = [s - b for s, b in zip(sizes, begins, strict=True)]
        cut = _per_axis(c, "crop_end", axes, none)
        c.require(min(cut, default=0) >= 0, f"crop_end {list(cut)} holds negative numbers")
        kept = [s - e for s, e in zip(left, cut, strict=True)]
    else:
        begins = _per_axis(c, "offset", axes)
        kept = _kept(c, axes)
    ends = [b + k for b, k in zip(begins, kept, strict=True)]
    for axis, size, begin, end in zip(axes, sizes, begins, ends, strict=True):
        good = 0 <= begin < end <= size
        c.require(good, f"keeps {begin} to {end} of {size} elements along axis {axis}")
    if ends == [e - b for e, b in zip(ends, begins, strict=True)] == sizes:
        return c.x
    return c.add(Slice(tuple(begins), tuple(ends), tuple(axes)), c.x)


def _kept(c: Context, axes: Sequence[int]) -> Sequence[int]:
    """The sizes that are left."""
    if c.has_attribute("dim"):
        return _per_axis(c, "dim", axes)
    shape = c.value(1).type.dims if len(c.inputs) == 2 else c.declared()
    c.require(len(shape) > max(axes, default=-1), f"crops axes {list(axes)} to {list(shape)}")
    return [shape[axis] for axis in axes]


def _per_axis(
    c: Context, name: str, axes: Sequence[int], default: Sequence[int] | None = None
) -> Sequence[int]:
    """One number per axis; a single number applies to all axes, as in Caffe."""
    found: Sequence[int] = c.ints(name) if default is None else c.ints(name, default)
    if len(found) == 1:
        return list(found) * len(axes)
    c.require(len(found) == len(axes), f"{name} holds {len(found)} numbers for {len(axes)} axes")
    return found


@dataclass(frozen=True)
class _Entry:
    """An entry of begin, end and stride; None: from the first or to the last element."""

    begin: int | None
    end: int | None
    step: int
    kind: str = "slice"

    def part(self, size: int) -> slice:
        """The range of an axis of ``size`` that the entry takes; single indices are clamped."""
        if self.kind == "ellipsis":
            return slice(0, size, 1)
        if self.kind == "shrink_axis":
            index = self.begin or 0
            place = min(max(index + size if index < 0 else index, 0), size - 1)
            return slice(place, place + 1, 1)
        return slice(*slice(self.begin, self.end, self.step).indices(size))


@layer("StridedSlice", inputs=(3, 4))
def strided_slice(c: Context) -> Value:
    """NumPy's indexing with one entry for each element of begin; masks give its kind."""
    shape: list[int] = []
    parts: list[slice] = []
    for entry in _filled_up(c, _indexed(c)):
        if entry.kind == "new_axis":
            shape.append(1)
            continue
        size = c.x.type.dims[len(parts)]
        part = entry.part(size)
        count = len(range(part.start, part.stop, part.step))
        c.require(count > 0, f"leaves nothing of axis {len(parts)}, which is {size} long")
        parts.append(part)
        if entry.kind != "shrink_axis":
            shape.append(count)
    if all(p == slice(0, d, 1) for p, d in zip(parts, c.x.type.dims, strict=True)):
        return c.reshape(c.x, shape)
    # A part that walks back past element 0 ends at -1, which must not mean the last one.
    ends = (-(1 << 31) if p.stop < 0 else p.stop for p in parts)
    cut = Slice(tuple(p.start for p in parts), tuple(ends), steps=tuple(p.step for p in parts))
    return c.reshape(c.add(cut, c.x), shape)


def _indexed(c: Context) -> list[_Entry]:
    """Entries of the inputs and masks; a new axis takes precedence over one that is dropped."""
    begins, ends = c.input_ints(1, "begin"), c.input_ints(2, "end")
    steps = c.input_ints(3, "stride") if len(c.inputs) > 3 else [1] * len(begins)
    count = len(begins)
    c.require(len(ends) == len(steps) == count, "begin, end and stride differ in length")
    masks = {name: _mask(c, name, count) for name in _MASKS}
    c.require(sum(masks["ellipsis"]) <= 1, "has more than one ellipsis")
    found = []
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        kind = next((k for k in _MASKS[2:] if masks[k][i]), "slice")
        c.require(step != 0 or kind != "slice", "has a stride of 0")
        first, last = begin if masks["begin"][i] else None, end if masks["end"][i] else None
        found.append(_Entry(first, last, step, kind))
    return found


#: Names of the masks; of the last three the first one that is set decides.
_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _mask(c: Context, name: str, count: int) -> list[bool]:
    """A mask; missing bits are 1 for begin and end, 0 for the others."""
    default = int(name in ("begin", "end"))
    bits = list(c.ints(f"{name}_mask", (default,)))
    c.require(all(bit in (0, 1) for bit in bits), f"{name}_mask {bits} is no mask")
    return [bool(bit) for bit in (bits + [default] * count)[:count]]


def _filled_up(c: Context, entries: Sequence[_Entry]) -> list[_Entry]:
    """Entries for all axes of the input: the ellipsis, or else the end, stands for the rest."""
    whole = _Entry(None, None, 1, "ellipsis")
    named = sum(e.kind not in ("new_axis", "ellipsis") for e in entries)
    c.require(named <= c.rank, f"has {named} entries for {c.rank} axes")
    rest = [whole] * (c.rank - named)
    place = next((i for i, e in enumerate(entries) if e.kind == "ellipsis"), None)
    if place is None:
        return [*entries, *rest]
    return [*entries[:place], *rest, *entries[place + 1 :]]
