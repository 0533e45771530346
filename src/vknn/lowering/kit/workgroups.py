"""Workgroup counts and sizes, loop rounds and buffer sizes that a device allows a dispatch."""

from __future__ import annotations

from vknn.errors import ShapeError
from vknn.lowering.kit.layouts import ceil_div
from vknn.plan import DeviceLimits


def lane_count(limits: DeviceLimits, wanted: int = 64) -> int:
    """Invocations of a one-dimensional workgroup: one subgroup on a CPU, ``wanted`` on a GPU."""
    most = min(limits.max_group_size[0], limits.max_group_invocations)
    return min(most, max(4, limits.subgroup_size) if limits.kind == "cpu" else wanted)


def spread(groups: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """``groups`` workgroups folded over three axes; there may be some more than asked for.

    Raises ShapeError where the device cannot have so many.
    """
    most = limits.max_group_count
    x = min(groups, most[0])
    y = min(ceil_div(groups, x), most[1])
    z = ceil_div(groups, x * y)
    if z > most[2]:
        raise ShapeError(f"{groups} workgroups are more than the device allows")
    return (x, y, z)


def fits(groups: int, limits: DeviceLimits) -> bool:
    """True where :func:`spread` can place the workgroups and a shader can number their lanes."""
    x, y, z = limits.max_group_count
    return groups <= x * y * z and groups * lane_count(limits) < 1 << 31


def allows_groups(groups: tuple[int, int, int], limits: DeviceLimits) -> bool:
    """True where a dispatch may have so many workgroups along each axis."""
    return all(g <= most for g, most in zip(groups, limits.max_group_count, strict=True))


def fits_lanes(count: int, limits: DeviceLimits) -> bool:
    """True where a dispatch can have a lane for each of ``count`` items."""
    return fits(ceil_div(count, lane_count(limits)), limits)


def rounds(*nested: int) -> int:
    """Rounds of loops nested in each other, the outermost first, with those that only end them."""
    total = 0
    for count in reversed(nested):
        total = count * (1 + total) + 1
    return total


def fits_loops(limits: DeviceLimits, *nested: int, times: int = 1) -> bool:
    """True where a lane may run loops nested so, ``times`` one after the other.

    Loops that the shader unrolls do not count. See DeviceLimits.max_loop_rounds.
    """
    return times * rounds(*nested) <= limits.max_loop_rounds


def fits_buffer(limits: DeviceLimits, count: int, width: int = 4) -> bool:
    """True where a shader can see all of a buffer of ``count`` elements of ``width`` bytes."""
    return width * count <= limits.max_storage_buffer_range
