"""Axes of blobs by their names: w, h, c and, of blobs with four axes, d.

Shapes are in the order of memory, outermost axis first: (w), (h, w), (c, h, w), (c, d, h, w).
"""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = ("w", "hw", "chw", "cdhw")


def axis_names(rank: int) -> str:
    """Names of the axes of a blob of this rank, a letter each, outermost first."""
    return _NAMES[rank - 1]


def size_of_axis(shape: Sequence[int], name: str) -> int:
    """Size of the axis ``name`` of a shape; 1 where it has no such axis."""
    names = axis_names(len(shape))
    return shape[names.index(name)] if name in names else 1


def with_rank(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """``shape`` with the axes of a blob of another rank, by name: axes that it lacks are 1.

    (h, w) with three axes is (1, h, w), but (c, h, w) with four is (c, 1, h, w).
    """
    return tuple(size_of_axis(shape, name) for name in axis_names(rank))
