"""Workgroups of kernels that reduce rows: lanes of a row, rows of a workgroup.

A row is a set of elements that are reduced together. The shaders share it out among lanes as
shaders/normalization/row_reduce.glsl says.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.workgroups import fits, fits_loops, lane_count, spread
from vknn.plan import DeviceLimits

#: Loops over a row in the kernels that reduce rows.
PASSES = 3
#: Rows that keep a GPU busy with one lane each.
MANY_ROWS = 4096
#: Rounds that the loops over lanes add to each of them, at the most.
LANE_ROUNDS = 8


@dataclass(frozen=True)
class RowShape:
    """Shape of a workgroup: ``lanes`` (a power of two) share a row, ``rows`` share a workgroup."""

    lanes: int
    rows: int

    @property
    def local(self) -> tuple[int, int, int]:
        """Size of the workgroup."""
        return self.lanes * self.rows, 1, 1

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants that shaders of rows declare."""
        return {"LANES": self.lanes, "ROWS": self.rows}

    def groups(self, rows: int, limits: DeviceLimits) -> tuple[int, int, int]:
        """Workgroups for so many rows."""
        return spread(ceil_div(rows, self.rows), limits)

    def fits(self, rows: int, width: int, limits: DeviceLimits) -> bool:
        """True where the device can have so many workgroups, and loops long enough."""
        return _loops(width, self.lanes, limits) and fits(ceil_div(rows, self.rows), limits)


def _loops(width: int, lanes: int, limits: DeviceLimits) -> bool:
    return fits_loops(limits, ceil_div(width, lanes) + LANE_ROUNDS, times=PASSES)


def row_shape(rows: int, width: int, limits: DeviceLimits, *, apart: bool = False) -> RowShape:
    """The workgroups for ``rows`` rows of ``width`` items.

    On a CPU a lane takes a whole row unless there are few rows; on a GPU a row gets as many lanes
    as have four items each, at least 8 and at most 128. ``apart``: neighbours of a row are not
    neighbours in memory, but rows are; there each of many rows is one lane's, on a GPU too.
    """
    alone = RowShape(1, lane_count(limits))
    many = limits.kind != "cpu" and apart and rows >= MANY_ROWS
    if many and alone.fits(rows, width, limits):
        return alone
    if limits.kind == "cpu":
        size = limits.subgroup_size
        if width < 16 or (rows >= 2 * size and _loops(width, 1, limits)):
            return RowShape(1, size)
        most = min(limits.max_group_invocations, limits.max_group_size[0])
        while not _loops(width, size, limits) and 2 * size <= most:
            size *= 2
        return RowShape(size, 1)
    size = min(128, limits.max_group_invocations)
    lanes = 8
    while lanes < size and lanes * 4 < width:
        lanes *= 2
    return RowShape(lanes, max(1, min(64, size) // lanes))
