"""Boxes and their confidences as rows: shapes that stand for them, declared ones and given ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import InputError, ModelFormatError
from vknn.formats.coreml.input_shapes import InputShapes, Range, array_shapes
from vknn.formats.coreml.inputs import ArrayInput
from vknn.formats.model import TensorSpec

_ANY: Range = (0, None)


class RowsInput(ArrayInput):
    """Rows [n, columns]; axes of size 1 may stand beside them, as in blobs of older networks."""

    def mapped(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape itself. Raises InputError where the model declares another one."""
        given = tuple(shape) or (1,)
        plain = _without_ones(given)
        same = plain == _without_ones(self.shapes.declared)
        if not same and not any(map(self.shapes.allow, (given, matrix(given), plain))):
            self._refuse(given)
        return given


@dataclass(frozen=True)
class RowsOutput:
    """Rows of an output: at least ``least``, at most ``most`` (None: any number), of ``columns``
    numbers each (None: not known).
    """

    name: str
    least: int
    most: int | None
    columns: int | None

    @property
    def spec(self) -> TensorSpec:
        """The output as the user sees it."""
        rows = self.least if self.least == self.most else None
        return TensorSpec(self.name, (rows, self.columns), np.dtype(np.float32))


def rows_output(feature: Any, columns: int | None, file: str | None) -> RowsOutput:
    """The rows that the description of an output allows. Raises ModelFormatError.

    ``columns``: how many the output has; None: the description says so, or nothing does.
    """
    what = f"output {feature.name!r}"
    if feature.type.WhichOneof("Type") != "multiArrayType":
        raise ModelFormatError(f"{what} has to be a multi array", file=file)
    ranges = declared_rows(array_shapes(feature.type.multiArrayType, what, file))
    if ranges is None:
        raise ModelFormatError(f"{what} has to be rows of numbers, with two axes", file=file)
    (least, most), (low, high) = ranges
    if columns is None:
        columns = low if low == high else None
    elif columns < low or (high is not None and columns > high):
        declared = low if low == high else f"{low} to {high}"
        problem = f"{what} is declared with {declared} columns, and there are {columns}"
        raise ModelFormatError(problem, file=file)
    return RowsOutput(feature.name, least, most, columns)


def declared_rows(shapes: InputShapes) -> tuple[Range, Range] | None:
    """The numbers of rows and of columns that shapes allow; None where they are no rows."""
    options = shapes.several or ((shapes.declared,) if shapes.declared else ())
    ranges: Sequence[Range] = shapes.ranges
    if not ranges and not options:
        return _ANY, _ANY
    if not ranges:
        matrices = [matrix(option) for option in options]
        if any(len(m) != 2 for m in matrices):
            return None
        ranges = [(min(sizes), max(sizes)) for sizes in zip(*matrices, strict=True)]
    while len(ranges) > 2 and ranges[0] == (1, 1):
        ranges = ranges[1:]
    return (ranges[0], ranges[1]) if len(ranges) == 2 else None


def boxes_in(name: str, shape: Sequence[int]) -> int:
    """The number of boxes in coordinates of this shape. Raises InputError."""
    dims = matrix(shape or (1,))
    if len(dims) == 2 and dims[1] == 4:
        return dims[0]
    plain = _without_ones(dims)
    if len(dims) != 2 and plain[-1:] == (4,) and len(plain) <= 2:
        return plain[0] if len(plain) == 2 else 1
    raise InputError(f"input {name!r} has the shape {list(shape)}; boxes are rows of 4 numbers")


def classes_in(name: str, shape: Sequence[int], count: int) -> int:
    """The number of classes in confidences of this shape, of ``count`` boxes. Raises InputError."""
    dims = matrix(shape or (1,))
    if len(dims) == 2 and dims[0] == count and dims[1]:
        return dims[1]
    plain = _without_ones(dims)
    own = (count,) if count != 1 else ()
    if len(dims) != 2 and plain[: len(own)] == own and len(plain) <= len(own) + 1:
        classes = plain[-1] if len(plain) > len(own) else 1
        if classes:
            return classes
    raise InputError(
        f"input {name!r} has the shape {list(shape)}; confidences are {count} rows, one for each "
        "box, of a number for each class"
    )


def matrix(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without the axes of size 1 in front of its last two."""
    dims = tuple(shape)
    while len(dims) > 2 and dims[0] == 1:
        dims = dims[1:]
    return dims


def _without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
