"""ReduceMean in order of indices, element after element (shaders/reduction/mean_in_order.comp).

The order of additions decides the result, and so only rows run side by side. A lane has four
neighbouring ones; on GPUs the lanes of a workgroup also load for one such lane together.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.lowering.kernels.reduction.reduction_axes import ReductionAxes
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, update, write
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_lanes, lane_count
from vknn.plan import DeviceLimits

#: Lanes of a workgroup that load for one, items in half of its shared memory, bytes of all of it.
_LANES, _ITEMS, _SHARED = 64, 128, 2 * 4 * 4 * (128 + 4)
#: Items that a round of its loop adds at least, also where the loop around it is counted.
_ITEMS_OF_ROUND = 16
#: Instructions of a wave for an item, and for the items that its lanes load at a time.
_ADDED, _LOADED = 2.5, 60.0


def mean_in_order(
    problem: Problem, axes: ReductionAxes, source: Layout, target: Layout
) -> Sequence[Candidate]:
    """One candidate, on GPUs two.

    None where a vec4 holds neighbours of one row, or the device has no room.
    """
    limits = problem.limits
    if axes.across or not fits_buffer(limits, 4 * axes.rows):
        return []
    moved = storage_bytes(problem.input(0), source)
    found = []
    for name, together in (("lines", False), ("together", True)):
        if not _fits(axes, limits, together):
            continue
        cost = ceil_div(axes.count, _items(limits, together)) * problem.machine.dispatch
        cost += _time(problem, axes, moved, together)
        emit = functools.partial(_emit, axes=axes, together=together)
        found.append(Candidate(f"{name}_{source.value}", (source,), (target,), emit, cost))
    return found


def _fits(axes: ReductionAxes, limits: DeviceLimits, together: bool) -> bool:
    if not together:
        return fits_lanes(axes.rows, limits)
    able = limits.kind != "cpu" and lane_count(limits) == _LANES
    return able and limits.shared_memory >= _SHARED and fits(axes.rows, limits)


def _time(problem: Problem, axes: ReductionAxes, moved: int, together: bool) -> float:
    machine = problem.machine
    if problem.limits.kind == "cpu":
        return moved * machine.byte
    if not together:
        return moved * machine.byte + machine.latency * axes.count
    loads = ceil_div(axes.count, _ITEMS)
    steps = _ADDED * axes.count + _LOADED * loads
    return machine.beside(machine.on_simds(_LANES * axes.rows, steps, loads), moved)


def _items(limits: DeviceLimits, together: bool) -> int:
    """Items that a dispatch may add up."""
    return max(1, limits.max_loop_rounds - 1) * (_ITEMS_OF_ROUND if together else 1)


def _emit(emitter: Emitter, axes: ReductionAxes, together: bool) -> None:
    limits, x, y = emitter.problem.limits, emitter.input(0), emitter.output()
    shape = RowShape(_LANES, 1) if together else RowShape(1, lane_count(limits))
    begins = range(0, max(1, axes.count), _items(limits, together))
    # With one dispatch nothing is kept between; a binding needs a buffer all the same.
    sums = emitter.scratch("sums", 4 * axes.rows if len(begins) > 1 else 4)
    elements = emitter.problem.input(0).size / emitter.problem.outputs[0].size
    for begin in begins:
        end = min(begin + begins.step, axes.count)
        emitter.dispatch(
            "reduction/mean_in_order",
            [read4(x), update(sums), write(y)],
            groups=shape.groups(axes.rows, limits),
            local=shape.local,
            push={**axes.push(), "begin": begin, "end": end, "number": elements},
            spec={
                **axes.spec(shape),
                "FIRST": int(begin == 0),
                "LAST": int(end == axes.count),
            },
            defines={"TOGETHER": 1} if together else {},
            flops=4 * axes.rows * (end - begin),
        )
