"""CumSum and CumProd: a lane of a row combines a run of its elements, from the runs before it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.lowering.kernels.reduction.axis_rows import AxisRows, side_by_side
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, write
from vknn.lowering.kit.layouts import PLAIN, Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, lane_count
from vknn.ops.reduction import CumProd, CumSum, Cumulative
from vknn.plan import DeviceLimits

#: Elements of a run that are worth a lane of their own.
_RUN = 16


@lowers(CumSum, CumProd)
def cumulative(problem: Problem) -> Sequence[Candidate]:
    """Candidates: along any axis of LINEAR, along other axes than the channels in C4."""
    op, x, limits = problem.op, problem.input(0), problem.limits
    assert isinstance(op, Cumulative)
    found = []
    machine = problem.machine
    # An exclusive product begins with 1, which the padding of C4 must not have.
    for layout in (Layout.LINEAR,) if isinstance(op, CumProd) and op.exclusive else PLAIN:
        rows = side_by_side(x, op.axis % x.rank, layout)
        if rows is None:
            continue
        shape = _shape(rows, limits)
        if not _fits(rows, shape, limits):
            continue
        cost = machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte
        if limits.kind != "cpu":
            cost += machine.latency * (rows.count / shape.lanes + shape.lanes / 4)
        emit = functools.partial(_emit_runs, rows=rows, shape=shape)
        found.append(Candidate(f"runs_{layout.value}", (layout,), (layout,), emit, cost))
    return found


def _shape(rows: AxisRows, limits: DeviceLimits) -> RowShape:
    """One lane where there are many rows; otherwise as many as have work, and loops allow."""
    size = lane_count(limits)
    if rows.rows >= 16 * size and _fits(rows, RowShape(1, size), limits):
        return RowShape(1, size)
    most = min(limits.max_group_size[0], limits.max_group_invocations, limits.shared_memory // 16)
    lanes = 1
    while 2 * lanes <= most and _RUN * lanes < rows.count and lanes * lanes < 4 * rows.count:
        lanes *= 2
    return RowShape(lanes, max(1, size // lanes))


def _fits(rows: AxisRows, shape: RowShape, limits: DeviceLimits) -> bool:
    run = ceil_div(rows.count, shape.lanes)
    loops = fits_loops(limits, 2 * run + shape.lanes + 2)
    return loops and fits(ceil_div(rows.rows, shape.rows), limits)


def _emit_runs(emitter: Emitter, rows: AxisRows, shape: RowShape) -> None:
    op, type_, x = emitter.problem.op, emitter.problem.input(0), emitter.input(0)
    assert isinstance(op, Cumulative)
    emitter.dispatch(
        "reduction/cumsum",
        [rows.read(x), write(emitter.output())],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={**rows.push(), "chunk": ceil_div(rows.count, shape.lanes)},
        spec={
            **shape.spec,
            "EXCLUSIVE": int(op.exclusive),
            "REVERSE": int(op.reverse),
            "PRODUCT": int(isinstance(op, CumProd)),
        },
        defines={"WIDE": int(rows.wide), "ELEM": int(not x.is_float)},
        access=None if x.is_float else "storage",
        flops=2 * type_.size,
    )
