"""Shapes that an input may have: declared ones, enumerated ones and ranges (ShapeFlexibility)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vknn.errors import ModelFormatError

#: Least and greatest value of a size; None: no limit.
Range = tuple[int, int | None]


@dataclass(frozen=True)
class InputShapes:
    """The shapes that an input may have.

    ``declared``: the default shape and, without ``several`` or ``ranges``, the only one; any shape
    is allowed where that is empty too.
    """

    declared: tuple[int, ...]
    several: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[Range, ...] = ()

    def allow(self, shape: Sequence[int]) -> bool:
        """Whether an array may have this shape."""
        given = tuple(shape)
        if self.several:
            return given in self.several or given == self.declared
        if self.ranges:
            return len(given) == len(self.ranges) and all(
                low <= size and (high is None or size <= high)
                for size, (low, high) in zip(given, self.ranges, strict=True)
            )
        return not self.declared or given == self.declared

    @property
    def pattern(self) -> tuple[int | None, ...] | None:
        """The shape with None for sizes that may differ; None where the rank may differ."""
        options = self.several or ((self.declared,) if self.declared else ())
        if self.ranges:
            return tuple(low if low == high else None for low, high in self.ranges)
        if not options or len({len(o) for o in options}) > 1:
            return None
        kinds = [set(sizes) for sizes in zip(*options, strict=True)]
        return tuple(sizes.pop() if len(sizes) == 1 else None for sizes in kinds)

    @property
    def default(self) -> tuple[int, ...]:
        """The shape where nothing says another: the declared one, else the first or least one."""
        if self.declared or not (self.several or self.ranges):
            return self.declared
        return self.several[0] if self.several else tuple(low for low, _ in self.ranges)

    @property
    def hint(self) -> tuple[int, ...] | None:
        """The default shape, where that is one of a tensor that is not empty; else None."""
        return self.default if self.default and all(self.default) else None

    def __str__(self) -> str:
        if self.ranges:
            sizes = (
                f"{a}" if a == b else f"{a}..{'any' if b is None else b}" for a, b in self.ranges
            )
            return f"[{', '.join(sizes)}]"
        options = self.several or (self.declared,)
        return " or ".join(str(list(o)) for o in options)


def array_shapes(message: Any, what: str, file: str | None) -> InputShapes:
    """The shapes of an ArrayFeatureType. Raises ModelFormatError."""
    declared = tuple(message.shape)
    kind = message.WhichOneof("ShapeFlexibility")
    several: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    if kind == "enumeratedShapes":
        several = tuple(tuple(s.shape) for s in message.enumeratedShapes.shapes)
    elif kind == "shapeRange":
        ranges = tuple(size_range(r) for r in message.shapeRange.sizeRanges)
    if any(d <= 0 for s in (declared, *several) for d in s):
        raise ModelFormatError(f"{what} declares the shape {list(declared)}", file=file)
    _check_ranges(ranges, what, file)
    return InputShapes(declared, several, ranges)


def image_shapes(message: Any, what: str, file: str | None) -> InputShapes:
    """The (height, width) of an ImageFeatureType. Raises ModelFormatError."""
    declared = (int(message.height), int(message.width))
    if min(declared) < 0:
        raise ModelFormatError(f"{what} declares the size {declared[1]} x {declared[0]}", file=file)
    kind = message.WhichOneof("SizeFlexibility")
    several: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    if kind == "enumeratedSizes":
        several = tuple((int(s.height), int(s.width)) for s in message.enumeratedSizes.sizes)
    elif kind == "imageSizeRange":
        sizes = message.imageSizeRange
        ranges = (size_range(sizes.heightRange), size_range(sizes.widthRange))
    _check_ranges(ranges, what, file)
    return InputShapes(declared if min(declared) else (), several, ranges)


def size_range(message: Any) -> Range:
    """A SizeRange; a negative upper bound means that there is none."""
    upper = int(message.upperBound)
    return int(message.lowerBound), None if upper < 0 else upper


def _check_ranges(ranges: Sequence[Range], what: str, file: str | None) -> None:
    for low, high in ranges:
        if high is not None and high < low:
            raise ModelFormatError(f"{what} takes sizes from {low} to {high}, so none", file=file)
