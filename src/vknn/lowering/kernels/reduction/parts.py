"""Parts of few long rows, and the estimated cost of rows that are not cut into parts."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kernels.reduction.reduction_axes import ReductionAxes
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.plan import DeviceLimits

#: Workgroups that keep a device busy, and items that are worth a workgroup of their own.
_BUSY, _WORTHWHILE = 256, 256


@dataclass(frozen=True)
class RowParts:
    """A row cut into ``parts`` of ``chunk`` items."""

    parts: int
    chunk: int

    def push(self) -> dict[str, int]:
        """Push constants by name."""
        return {"parts": self.parts, "chunk": self.chunk}

    def shape(self, axes: ReductionAxes, limits: DeviceLimits) -> RowShape:
        """Workgroups that take the parts of all rows, each as a row of its own."""
        return row_shape(axes.rows * self.parts, self.chunk, limits)


def parts_of(axes: ReductionAxes, limits: DeviceLimits) -> RowParts | None:
    """Parts enough to keep a device busy; None where there are enough rows, or they are short."""
    wanted = min(_BUSY // max(1, axes.rows), axes.count // _WORTHWHILE)
    if wanted < 2:
        return None
    chunk = ceil_div(axes.count, wanted)
    return RowParts(ceil_div(axes.count, chunk), chunk)


def whole_row_cost(axes: ReductionAxes, shape: RowShape, limits: DeviceLimits) -> float:
    """Estimated microseconds that lanes wait where a row is left to one workgroup."""
    machine = machine_of(limits)
    if limits.kind != "cpu":
        return machine.latency * axes.count / shape.lanes
    groups = ceil_div(axes.rows, shape.rows)
    return 16 * axes.rows * axes.count * machine.byte * (max(0, 8 - groups) / max(1, groups))
