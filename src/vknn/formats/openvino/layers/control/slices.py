"""Slices of an axis, one for each iteration of a TensorIterator."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.records import PortMapping


@dataclass(frozen=True)
class AxisSlices:
    """``count`` slices of ``width`` along ``axis`` of ``size``, ``stride`` apart.

    ``start``: where the first slice begins or, for a negative stride, ends.
    """

    axis: int
    size: int
    start: int
    stride: int
    width: int
    count: int

    @property
    def covers_all(self) -> bool:
        """Whether the slices are the whole axis, each element once."""
        return self.width == abs(self.stride) and self.width * self.count == self.size

    def begin(self, iteration: int) -> int:
        """The index at which the slice of an iteration begins."""
        at = self.start + iteration * self.stride
        return at if self.stride > 0 else at - self.width

    @classmethod
    def of(
        cls, c: Context, mapping: PortMapping, axis: int, size: int, inner: int | None
    ) -> AxisSlices:
        """The slices of an input's axis of ``size``; ``inner``: the size of the body's port."""
        start, end = _ends(c, mapping, size)
        width = _width(c, mapping, inner)
        length, step = abs(end - start), abs(mapping.stride)
        count = (length - width) // step + 1 if length >= width else 0
        return cls(axis, size, start, mapping.stride, width, count)

    @classmethod
    def for_output(
        cls, c: Context, mapping: PortMapping, axis: int, width: int, count: int, number: int
    ) -> AxisSlices:
        """The slices that an output of ``count`` slices of ``width`` is joined from."""
        stated = _width(c, mapping, width)
        c.require(stated == width, f"its body makes slices of {width}, part_size is {stated}")
        size = (count - 1) * abs(mapping.stride) + width
        if c.is_as_declared:
            size = c.port(number).dims[axis] if axis < len(c.port(number).dims) else size
        elif mapping.start not in (None, 0, -1) or mapping.end not in (None, 0, -1):
            c.declared(number)
        start, end = _ends(c, mapping, size)
        room = abs(end - start)
        needed = (count - 1) * abs(mapping.stride) + width
        c.require(needed <= room, f"{count} slices of {width} do not fit into {room}")
        return cls(axis, size, start, mapping.stride, width, count)


def _ends(c: Context, mapping: PortMapping, size: int) -> tuple[int, int]:
    """Start and end as indices from 0 to ``size``; negative numbers count from behind the end."""
    c.require(mapping.stride != 0, "has the stride 0")
    start = 0 if mapping.start is None else mapping.start
    end = -1 if mapping.end is None else mapping.end
    if mapping.stride < 0 and mapping.start is None and mapping.end is None:
        start, end = -1, 0
    positions = [v + size + 1 if v < 0 else v for v in (start, end)]
    for given, position in zip((start, end), positions, strict=True):
        c.require(0 <= position <= size, f"{given} lies outside the {size} elements of its axis")
    forward = positions[0] <= positions[1] if mapping.stride > 0 else positions[0] >= positions[1]
    c.require(forward, f"goes from {start} to {end} with the stride {mapping.stride}")
    return positions[0], positions[1]


def _width(c: Context, mapping: PortMapping, inner: int | None) -> int:
    """The width of a slice: its part_size, else the size of the body's port, else the stride."""
    if mapping.part_size is not None:
        fits = mapping.part_size > 0 and inner in (None, mapping.part_size)
        c.require(fits, f"part_size is {mapping.part_size}, its body takes {inner}")
        return mapping.part_size
    return abs(mapping.stride) if inner is None else inner
