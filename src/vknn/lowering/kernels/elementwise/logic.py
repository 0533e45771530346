"""Comparison, logical operators and Where, with broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kernels.elementwise.broadcasting import Broadcast, in_each_layout
from vknn.lowering.kernels.elementwise.rule import channel_location
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.elementwise import logic

#: As shaders/elementwise/compare.comp numbers them; of bools Xor is NotEqual.
_KINDS: dict[type[Op], int] = {
    logic.Equal: 0,
    logic.NotEqual: 1,
    logic.Less: 2,
    logic.LessOrEqual: 3,
    logic.Greater: 4,
    logic.GreaterOrEqual: 5,
    logic.And: 6,
    logic.Or: 7,
    logic.Xor: 1,
    logic.Not: 1,
}


@lowers(*_KINDS)
def compare(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout; Not is the comparison with a scalar of 1."""
    types = [t for t in problem.inputs if t is not None]
    if isinstance(problem.op, logic.Not):
        types.append(types[0].with_shape(()))
    return _candidates(problem, types)


@lowers(logic.Where)
def where(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout."""
    condition, a, b = problem.input(0), problem.input(1), problem.input(2)
    return _candidates(problem, [a, b, condition])


def _candidates(problem: Problem, types: list[TensorType]) -> list[Candidate]:
    """``types`` are those of the operands in the order of the kernel."""
    (y,) = problem.outputs
    found = []
    for layout, known, plan, cost in in_each_layout(problem, types):
        needed = known[: len(problem.inputs)]
        if isinstance(problem.op, logic.Where):
            needed = [known[2], *known[:2]]
        emit = functools.partial(_emit, op=problem.op, y=y, layout=layout, plan=plan)
        found.append(Candidate(f"logic_{layout.value}", tuple(needed), (layout,), emit, cost))
    return found


def _emit(emitter: Emitter, op: Op, y: TensorType, layout: Layout, plan: Broadcast) -> None:
    count = vector_count(y, layout)
    operands = _operands(emitter, op)
    location = {"spatial": 1, "blocks": 1, "channels": 0}
    if layout is Layout.C4:
        location = channel_location(y, layout)
    read = read4 if plan.wide else read1
    spec = plan.constants | {"PADDING_LANES": int(location["channels"] % 4 != 0)}
    selects = isinstance(op, logic.Where)
    emitter.dispatch_items(
        "elementwise/where" if selects else "elementwise/compare",
        [*(read(operand) for operand in operands), write(emitter.output())],
        grid(emitter.problem.limits, count, count if plan.wide else y.size),
        push={"count": count, "elements": y.size, **location, **plan.sizes_and_strides},
        spec=spec if selects else spec | {"KIND": _KINDS[type(op)]},
        defines={"ELEM": int(not operands[0].is_float), "WIDE": int(plan.wide)},
    )


def _operands(emitter: Emitter, op: Op) -> list[Ref]:
    if isinstance(op, logic.Where):
        return [emitter.input(1), emitter.input(2), emitter.input(0)]
    if isinstance(op, logic.Not):
        one = emitter.weight("one", lambda: np.ones(4, np.int32))
        return [emitter.input(0), one]
    return [emitter.input(0), emitter.input(1)]
