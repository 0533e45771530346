"""Softmax and LogSoftmax along one axis, in one dispatch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.axis_rows import AxisRows, along_lanes, side_by_side
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, write
from vknn.lowering.kit.layouts import PLAIN, Layout, ceil_div, storage_bytes
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import lane_count
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.plan import DeviceLimits

#: Floating point operations of an element: two exponentials, a maximum, a sum, a division.
_FLOPS = 40


@lowers(Softmax, LogSoftmax)
def softmax(problem: Problem) -> Sequence[Candidate]:
    """Candidates: one for each layout in which the device can hold the rows."""
    x, op, limits = problem.input(0), problem.op, problem.limits
    assert isinstance(op, Softmax | LogSoftmax)
    axis = op.axis % x.rank
    found = []
    for layout in PLAIN:
        shaped = [(rows, _shape(rows, limits)) for rows in _views(x, axis, layout)]
        fitting = [(rows, s) for rows, s in shaped if s.fits(rows.rows, rows.count, limits)]
        if fitting:
            rows, shape = fitting[0]
            emit = functools.partial(_emit_softmax, layout=layout, rows=rows, shape=shape)
            cost = _cost(x, layout, rows, shape, limits)
            found.append(Candidate(f"softmax_{layout.value}", (layout,), (layout,), emit, cost))
    return found


def _views(x: TensorType, axis: int, layout: Layout) -> list[AxisRows]:
    """Ways to see the rows, the best one first.

    Rows side by side are read as they lie; rows that run through the lanes of gathered vec4s may
    be shared by many lanes of a workgroup, so that longer ones fit.
    """
    beside, along = side_by_side(x, axis, layout), along_lanes(x, axis, layout)
    return [rows for rows in (beside, along) if rows is not None and (rows.wide or rows.across)]


def _shape(rows: AxisRows, limits: DeviceLimits) -> RowShape:
    """The workgroups; rows side by side in a vec4 have a lane each."""
    alone = RowShape(1, lane_count(limits))
    many = limits.kind != "cpu" and rows.inner > 1 and rows.rows >= 4096
    if not rows.across or (many and alone.fits(rows.rows, rows.count, limits)):
        return alone
    return row_shape(rows.rows, rows.count, limits)


def _cost(
    x: TensorType, layout: Layout, rows: AxisRows, shape: RowShape, limits: DeviceLimits
) -> float:
    machine = machine_of(limits)
    cost = machine.dispatch + 4 * storage_bytes(x, layout) * machine.byte
    cost += x.size * _FLOPS * machine.flop
    # Rows are read twice.
    return cost if limits.kind == "cpu" else cost + 2 * machine.latency * rows.count / shape.lanes


def _emit_softmax(emitter: Emitter, layout: Layout, rows: AxisRows, shape: RowShape) -> None:
    x, op = emitter.problem.input(0), emitter.problem.op
    assert isinstance(op, Softmax | LogSoftmax)
    channels, spatial = 1, 1
    if layout is Layout.C4:
        channels, spatial = x.dims[1], math.prod(x.dims[2:])
    source, target = emitter.input(0), emitter.output()
    emitter.dispatch(
        "reduction/softmax",
        [rows.read(source), write(target)],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={
            **rows.push(),
            "axis": x.dims[op.axis % x.rank],
            "spatial": spatial,
            "blocks": ceil_div(channels, 4),
            "channels": channels,
        },
        spec={
            **shape.spec,
            "ACROSS": int(rows.across),
            "PADDING_LANES": int(layout is Layout.C4 and channels % 4 != 0),
            "LOGARITHM": int(isinstance(op, LogSoftmax)),
        },
        defines={"WIDE": int(rows.wide)},
        flops=_FLOPS * x.size,
    )
