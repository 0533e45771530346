"""Grid loops: items of a dispatch shared out among lanes (shaders/common/indexing.glsl)."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.workgroups import spread
from vknn.plan import DeviceLimits

#: Workgroups that keep every core of a CPU device busy; each one costs time of its own there.
CPU_GROUPS = 128
#: Most workgroups on other devices, for work that has that many items.
GPU_GROUPS = 1 << 14
#: Rounds of the loops within an item of most kernels, at the most.
ITEM_ROUNDS = 15

#: Items below this number count as few (specialization constant FEW_ITEMS).
FEW = 1 << 20


@dataclass(frozen=True)
class Grid:
    """Workgroups, their size, and the items in a row that each takes (push constant ``chunk``).

    ``spec``: specialization constants of shaders/common/indexing.glsl. See Emitter.dispatch_items.
    """

    groups: tuple[int, int, int]
    local: tuple[int, int, int]
    chunk: int
    spec: dict[str, int]


def group_size(limits: DeviceLimits) -> int:
    """Lanes of a workgroup: a subgroup on CPU devices, 64 or what the device allows elsewhere."""
    most = min(limits.max_group_size[0], limits.max_group_invocations)
    if limits.kind == "cpu":
        return min(max(4, limits.subgroup_size), most)
    return min(64, most)


def grid(
    limits: DeviceLimits, items: int, indices: int | None = None, item_rounds: int = ITEM_ROUNDS
) -> Grid:
    """Grid that shares ``items`` out among workgroups, with chunks of about equal size.

    ``indices``: how large the indices are that the shader takes apart (by default ``items``).
    ``item_rounds``: rounds of the loops within an item; a lane gets no more items than its loops
    allow.
    """
    size = group_size(limits)
    most = min(limits.max_group_count[0], CPU_GROUPS if limits.kind == "cpu" else GPU_GROUPS)
    in_a_lane = max(1, (limits.max_loop_rounds - 1) // (1 + item_rounds))
    groups = max(1, min(ceil_div(items, size), most), ceil_div(items, size * in_a_lane))
    chunk = ceil_div(items, groups * size) * size
    few = int(max(items, indices or 0) < FEW)
    return Grid(spread(ceil_div(items, chunk), limits), (size, 1, 1), chunk, {"FEW_ITEMS": few})
