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
        cls, c: Context, rule: PortMapping, axis: int, size: int, inner: int | None
    ) -> AxisSlices:
        """The slices of an input's axis of ``size``; ``inner``: the size of the body's port."""
        start, end = _ends(c, rule, size)
        width = _width(c, rule, inner)
        length, step = abs(end - start), abs(rule.stride)
        count = (length - width) // step + 1 if length >= width else 0
        return cls(axis, size, start, rule.stride, width, count)

    @classmethod
    def for_output(
        cls, c: Context, rule: PortMapping, axis: int, width: int, count: int, number: int
    ) -> AxisSlices:
        """The slices that an output of ``count`` slices of ``width`` is joined from."""
        stated = _width(c, rule, width)
        c.require(stated == width, f"its body makes slices of {width}, part_size is {stated}")
        size = (count - 1) * abs(rule.stride) + width
        if c.is_as_declared:
            size = c.port(number).dims[axis] if axis < len(c.port(number).dims) else size
        elif rule.start not in (None, 0, -1) or rule.end not in (None, 0, -1):
            c.declared(number)
        start, end = _ends(c, rule, size)
        room = abs(end - start)
        needed = (count - 1) * abs(rule.stride) + width
        c.require(needed <= room, f"{count} slices of {width} do not fit into {room}")
        return cls(axis, size, start, rule.stride, width, count)


def _ends(c: Context, rule: PortMapping, size: int) -> tuple[int, int]:
    """Start and end as indices from 0 to ``size``; negative numbers count from behind the end."""
    c.require(rule.stride != 0, "has the stride 0")
    start = 0 if rule.start is None else rule.start
    end = -1 if rule.end is None else rule.end
    if rule.stride < 0 and rule.start is None and rule.end is None:
        start, end = -1, 0
    places = [v + size + 1 if v < 0 else v for v in (start, end)]
    for given, place in zip((start, end), places, strict=True):
        c.require(0 <= place <= size, f"{given} lies outside the {size} elements of its axis")
    forward = places[0] <= places[1] if rule.stride > 0 else places[0] >= places[1]
    c.require(forward, f"goes from {start} to {end} with the stride {rule.stride}")
    return places[0], places[1]


def _width(c: Context, rule: PortMapping, inner: int | None) -> int:
    """The width of a slice: its part_size, else the size of the body's port, else the stride."""
    if rule.part_size is not None:
        fits = rule.part_size > 0 and inner in (None, rule.part_size)
        c.require(fits, f"part_size is {rule.part_size}, its body takes {inner}")
        return rule.part_size
    return abs(rule.stride) if inner is None else inner
