"""GLU, the gated linear unit: one half of a row times the sigmoid of the other half."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.elementwise.glu import Glu


@lowers(Glu)
def glu(problem: Problem) -> Sequence[Candidate]:
    """LINEAR by vec4s or scalars; C4 where the halves are whole blocks of channels."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, Glu)
    axis = op.axis % x.rank
    machine = problem.machine
    work = 2 * x.size * (4 * machine.byte + 12 * machine.flop)
    found = []
    for layout in PLAIN:
        rows = _rows(x, axis, layout)
        if rows is not None:
            cost = machine.dispatch + work * (1 if rows.wide else 2)
            emit = functools.partial(_emit, rows=rows, output=problem.outputs[0], layout=layout)
            found.append(Candidate(f"rows_{layout.value}", (layout,), (layout,), emit, cost))
    return found


@dataclass(frozen=True)
class _Rows:
    """``count`` rows of ``row`` vec4s or scalars; the halves are the first two ``part``."""

    count: int
    row: int
    part: int
    wide: bool


def _rows(x: TensorType, axis: int, layout: Layout) -> _Rows | None:
    if not allows(x, layout):
        return None
    sizes, half = list(x.dims), x.dims[axis] // 2
    if layout is Layout.C4:
        if axis == 1 and half % 4:
            return None
        sizes[1] = ceil_div(sizes[1], 4)
        half = half // 4 if axis == 1 else half
    inner = math.prod(sizes[axis + 1 :])
    count, row, part = math.prod(sizes[:axis]), sizes[axis] * inner, half * inner
    if layout is Layout.C4:
        return _Rows(count, row, part, True)
    if row % 4 or part % 4:
        return _Rows(count, row, part, False)
    return _Rows(count, row // 4, part // 4, True)


def _emit(emitter: Emitter, rows: _Rows, output: TensorType, layout: Layout) -> None:
    x, total = emitter.input(0), rows.count * rows.part
    plane, channels = 1, 1
    if layout is Layout.C4:
        plane, channels = math.prod(output.dims[2:]), output.dims[1]
    emitter.dispatch_items(
        "elementwise/glu",
        [read4(x) if rows.wide else read1(x), write(emitter.output())],
        grid(emitter.problem.limits, total, rows.count * rows.row),
        push={
            "total": total,
            "row": rows.row,
            "part": rows.part,
            "plane": plane,
            "blocks": ceil_div(channels, 4),
            "channels": channels,
        },
        spec={"PADDING_LANES": int(channels % 4 != 0 and layout is Layout.C4)},
        defines={"WIDE": int(rows.wide)},
        flops=24 * total,
    )
