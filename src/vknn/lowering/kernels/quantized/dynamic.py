"""DynamicRound: lanes share a row, whose range they find first; long rows are cut into parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.lowering.kernels.reduction.rows import row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Bound, Emitter, ceil_div, read1, read4, write
from vknn.lowering.kit.grid_loop import group_size
from vknn.lowering.kit.layouts import Layout, allows, packed_shape
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, spread
from vknn.ops.quantized.dynamic import ROUNDINGS, DynamicRound

#: Most parts of a row: each lane of the second dispatch looks at the ranges of all of them.
MOST_PARTS = 64
#: vec4s that a lane takes of a part, where the row has so many.
PART_STEPS = 16
#: A row that is a workgroup's alone leaves other cores of the device idle.
_LONG_ROW = 4.0


@lowers(DynamicRound)
def dynamic_round(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout, or two of parts of rows."""
    (x, *_), op = problem.outputs, problem.op
    assert isinstance(op, DynamicRound)
    if x.size == 0:
        return []
    axis = op.axis % x.rank
    layouts = [Layout.LINEAR]
    if axis == 1 and allows(x, Layout.C4):
        layouts.append(Layout.C4)  # the zeros behind the last channel are in every range
    found = []
    for layout in layouts:
        shape = packed_shape(x, layout)
        rows, width = math.prod(shape[:axis]), math.prod(shape[axis:])
        found += [_by_rows(problem, op, layout, rows, width)]
        found += [_by_parts(problem, op, layout, rows, width)]
    return [c for c in found if c is not None]


def _lying(layout: Layout, op: DynamicRound) -> tuple[Layout, ...]:
    """The outputs' layouts."""
    return (layout, Layout.LINEAR, Layout.LINEAR) if op.counts else (layout,)


def _steps(emitter: Emitter, op: DynamicRound) -> list[Bound]:
    """What the rows' steps are written to."""
    return [write(emitter.output(i)) for i in (1, 2)] if op.counts else []


def _by_rows(
    problem: Problem, op: DynamicRound, layout: Layout, rows: int, width: int
) -> Candidate | None:
    limits = problem.limits
    lanes = row_shape(rows, width, limits)
    if not lanes.fits(rows, width, limits):
        return None

    def emit(emitter: Emitter) -> None:
        emitter.dispatch(
            "quantized/dynamic_rows",
            [read1(emitter.input(0)), write(emitter.output()), *_steps(emitter, op)],
            groups=lanes.groups(rows, limits),
            local=lanes.local,
            push=[rows, width],
            spec={10: lanes.lanes, 11: lanes.rows, 12: ROUNDINGS.index(op.rounding)},
            defines={"COUNTS": int(op.counts)},
            flops=4 * rows * width,
        )

    alone = _LONG_ROW if ceil_div(rows, lanes.rows) < 4 else 1.0
    cost = DISPATCH_COST + 12 * rows * width * BYTE_COST * alone
    return Candidate("rows", (layout,), _lying(layout, op), emit, cost)


def _by_parts(
    problem: Problem, op: DynamicRound, layout: Layout, rows: int, width: int
) -> Candidate | None:
    limits, vectors = problem.limits, width // 4
    lanes = group_size(limits)
    chunk = max(lanes * PART_STEPS, ceil_div(vectors, MOST_PARTS))
    parts = max(1, ceil_div(vectors, chunk))
    loops = fits_loops(limits, max(ceil_div(chunk, lanes), MOST_PARTS), times=2)
    if width % 4 or not loops or not fits(rows * parts, limits):
        return None

    def emit(emitter: Emitter) -> None:
        ranges = emitter.scratch("ranges", 2 * rows * parts)
        groups, local = spread(rows * parts, limits), (lanes, 1, 1)
        push = [rows, vectors, parts, chunk]
        x, y = emitter.input(0), emitter.output()
        emitter.dispatch(
            "quantized/dynamic_range",
            [read4(x), write(ranges)],
            groups=groups,
            local=local,
            push=push,
            spec={10: lanes},
        )
        emitter.dispatch(
            "quantized/dynamic_parts",
            [read4(x), read1(ranges), write(y), *_steps(emitter, op)],
            groups=groups,
            local=local,
            push=push,
            spec={12: ROUNDINGS.index(op.rounding)},
            defines={"COUNTS": int(op.counts)},
            flops=4 * rows * width,
        )

    cost = 2 * DISPATCH_COST + 12 * rows * width * BYTE_COST
    return Candidate("parts", (layout,), _lying(layout, op), emit, cost)
