"""ReduceMean in order of indices: a lane for four neighbouring rows, element after element."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.lowering.kernels.reduction.reduction_axes import ReductionAxes
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, update, write
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_buffer, fits_lanes, lane_count
from vknn.plan import DeviceLimits


def mean_in_order(
    problem: Problem, axes: ReductionAxes, source: Layout, target: Layout
) -> Sequence[Candidate]:
    """One candidate; none where a vec4 holds neighbours of one row, or the device has no room."""
    limits = problem.limits
    fitting = fits_lanes(axes.rows, limits) and fits_buffer(limits, 4 * axes.rows)
    if axes.across or not fitting:
        return []
    emit = functools.partial(_emit, axes=axes)
    machine = problem.machine
    cost = ceil_div(axes.count, _items(limits)) * machine.dispatch
    cost += storage_bytes(problem.input(0), source) * machine.byte
    cost += 0.0 if limits.kind == "cpu" else machine.latency * axes.count
    return [Candidate(f"lines_{source.value}", (source,), (target,), emit, cost)]


def _items(limits: DeviceLimits) -> int:
    """Items that a dispatch may add up."""
    return max(1, limits.max_loop_rounds - 1)


def _emit(emitter: Emitter, axes: ReductionAxes) -> None:
    limits, x, y = emitter.problem.limits, emitter.input(0), emitter.output()
    shape = RowShape(1, lane_count(limits))
    begins = range(0, max(1, axes.count), _items(limits))
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
            flops=4 * axes.rows * (end - begin),
        )
