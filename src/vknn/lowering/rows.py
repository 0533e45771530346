"""Workgroups of kernels over rows and of kernels with a lane an element."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.emitter import ceil_div
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class RowShape:
    """``lanes`` (a power of two) share a row, ``rows`` share a workgroup.

    See shaders/normalization/row_reduce.glsl.
    """

    lanes: int
    rows: int

    @property
    def local(self) -> tuple[int, int, int]:
        return self.lanes * self.rows, 1, 1

    def groups(self, rows: int, limits: DeviceLimits) -> tuple[int, int, int]:
        return fold_groups(ceil_div(rows, self.rows), limits)

    def fits(self, rows: int, limits: DeviceLimits) -> bool:
        return self.groups(rows, limits)[1] <= limits.max_group_count[1]


def row_shape(rows: int, width: int, limits: DeviceLimits) -> RowShape:
    """A row a lane on a CPU, unless there are few rows; on a GPU as many lanes as a row feeds."""
    if limits.kind == "cpu":
        size = limits.subgroup_size
        return RowShape(1, size) if rows >= 2 * size or width < 16 else RowShape(size, 1)
    size = min(128, limits.max_group_invocations)
    lanes = 8
    while lanes < size and lanes * 4 < width:
        lanes *= 2
    return RowShape(lanes, max(1, min(64, size) // lanes))


def fold_groups(count: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """``count`` workgroups in a row, folded over y where x has not room (common/grid.glsl)."""
    x = min(count, limits.max_group_count[0])
    return x, ceil_div(count, x), 1


def flat_lanes(limits: DeviceLimits, most: int = 64) -> int:
    """Workgroup size of a kernel whose lanes have nothing to do with one another."""
    return limits.subgroup_size if limits.kind == "cpu" else min(most, limits.max_group_invocations)
