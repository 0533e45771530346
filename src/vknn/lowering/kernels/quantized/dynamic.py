"""Lowering of DynamicRound: rows by a workgroup each, or long rows in parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import group_size
from vknn.lowering.kit.layouts import Layout, allows, ceil_div, packed_shape
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, spread
from vknn.ops.quantized.dynamic import ROUNDINGS, DynamicRound
from vknn.plan import DeviceLimits

#: Most parts of a row: each lane of the second dispatch reads the ranges of all of them.
MOST_PARTS = 64
#: vec4s of a part for each lane, where the row has so many.
PART_STEPS = 16
#: Cost factor of few rows by a workgroup each, which leave other cores of the device idle.
_LONG_ROW = 4.0


@lowers(DynamicRound)
def dynamic_round(problem: Problem) -> Sequence[Candidate]:
    """Candidates of one dispatch, and of two by parts of rows, in either layout."""
    (x, *_), op = problem.outputs, problem.op
    assert isinstance(op, DynamicRound)
    if x.size == 0:
        return []
    axis = op.axis % x.rank
    layouts = [Layout.LINEAR]
    # Padding lanes are 0, which every range contains; they stay 0 but where the step is NaN.
    if axis == 1 and allows(x, Layout.C4) and (op.counts or x.dims[1] % 4 == 0):
        layouts.append(Layout.C4)
    found = []
    for layout in layouts:
        shape = packed_shape(x, layout)
        rows = _Rows(op, layout, math.prod(shape[:axis]), math.prod(shape[axis:]))
        found += [_by_rows(problem, rows), _by_parts(problem, rows)]
    return [c for c in found if c is not None]


@dataclass(frozen=True)
class _Rows:
    """A DynamicRound of so many rows of ``width`` elements, in a layout."""

    op: DynamicRound
    layout: Layout
    rows: int
    width: int

    @property
    def flops(self) -> int:
        """Estimated operations."""
        return 4 * self.rows * self.width

    @property
    def moved(self) -> int:
        """Bytes of reading the elements twice and writing them."""
        return 12 * self.rows * self.width

    def candidate(self, name: str, emit: Callable[[Emitter], None], cost: float) -> Candidate:
        """A candidate with the layouts of all outputs."""
        steps = (Layout.LINEAR, Layout.LINEAR) if self.op.counts else ()
        return Candidate(name, (self.layout,), (self.layout, *steps), emit, cost)


def _step_bindings(emitter: Emitter, op: DynamicRound) -> list[BoundBuffer]:
    """Bindings of the outputs for the rows' steps."""
    return [write(emitter.output(i)) for i in (1, 2)] if op.counts else []


def _by_rows(problem: Problem, rows: _Rows) -> Candidate | None:
    shape = row_shape(rows.rows, rows.width, problem.limits)
    if not shape.fits(rows.rows, rows.width, problem.limits):
        return None
    emit = functools.partial(_emit_rows, rows=rows, shape=shape)
    alone = _LONG_ROW if ceil_div(rows.rows, shape.rows) < 4 else 1.0
    machine = problem.machine
    return rows.candidate("rows", emit, machine.dispatch + rows.moved * machine.byte * alone)


def _emit_rows(emitter: Emitter, rows: _Rows, shape: RowShape) -> None:
    op = rows.op
    emitter.dispatch(
        "quantized/dynamic_rows",
        [read1(emitter.input(0)), write(emitter.output()), *_step_bindings(emitter, op)],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={"rows": rows.rows, "width": rows.width},
        spec={
            "LANES": shape.lanes,
            "ROWS": shape.rows,
            "ROUNDING": ROUNDINGS.index(op.rounding),
        },
        defines={"COUNTS": int(op.counts)},
        flops=rows.flops,
    )


def _by_parts(problem: Problem, rows: _Rows) -> Candidate | None:
    limits = problem.limits
    lanes, push = group_size(limits), _part_push(rows, limits)
    loops = fits_loops(limits, max(ceil_div(push["chunk"], lanes), MOST_PARTS), times=2)
    if rows.width % 4 or not loops or not fits(rows.rows * push["parts"], limits):
        return None
    emit = functools.partial(_emit_parts, rows=rows)
    machine = problem.machine
    return rows.candidate("parts", emit, 2 * machine.dispatch + rows.moved * machine.byte)


def _part_push(rows: _Rows, limits: DeviceLimits) -> dict[str, int]:
    """Push constants of both dispatches; ``width`` and ``chunk`` are vec4s of a row and a part."""
    vectors = rows.width // 4
    chunk = max(group_size(limits) * PART_STEPS, ceil_div(vectors, MOST_PARTS))
    parts = max(1, ceil_div(vectors, chunk))
    return {"rows": rows.rows, "width": vectors, "parts": parts, "chunk": chunk}


def _emit_parts(emitter: Emitter, rows: _Rows) -> None:
    op, limits = rows.op, emitter.problem.limits
    lanes, push = group_size(limits), _part_push(rows, limits)
    count = rows.rows * push["parts"]
    ranges = emitter.scratch("ranges", 2 * count)
    groups, local = spread(count, limits), (lanes, 1, 1)
    x, y = emitter.input(0), emitter.output()
    emitter.dispatch(
        "quantized/dynamic_range",
        [read4(x), write(ranges)],
        groups=groups,
        local=local,
        push=push,
        spec={"LANES": lanes},
    )
    emitter.dispatch(
        "quantized/dynamic_parts",
        [read4(x), read1(ranges), write(y), *_step_bindings(emitter, op)],
        groups=groups,
        local=local,
        push=push,
        spec={"ROUNDING": ROUNDINGS.index(op.rounding)},
        defines={"COUNTS": int(op.counts)},
        flops=rows.flops,
    )
