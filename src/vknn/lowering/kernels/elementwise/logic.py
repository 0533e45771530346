"""Comparisons, logic, and the choice between two tensors, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kernels.elementwise.broadcasting import Broadcast, broadcast, operand_layout
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, storage_bytes, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.elementwise import logic

_KIND, _TAIL = 10, 14
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
#: A scalar at a time costs about this many times what whole vec4s cost.
_SCALAR_PENALTY = 3.0


@lowers(*_KINDS)
def compare(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout; Not is the comparison with a scalar of 1."""
    types = [t for t in problem.inputs if t is not None]
    if isinstance(problem.op, logic.Not):
        types.append(types[0].with_shape(()))
    return _offers(problem, types)


@lowers(logic.Where)
def where(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout."""
    condition, a, b = problem.inputs
    assert condition is not None and a is not None and b is not None
    return _offers(problem, [a, b, condition])


def _offers(problem: Problem, types: list[TensorType]) -> list[Candidate]:
    """``types`` are those of the operands in the order of the kernel."""
    (y,) = problem.outputs
    found = []
    for layout in (lay for lay in PLAIN if allows(y, lay)):
        layouts = [operand_layout(t, y, layout) for t in types]
        known = [lay for lay in layouts if lay is not None]
        plan = broadcast(types, known, y, layout) if len(known) == len(types) else None
        if plan is None:
            continue
        moved = sum(storage_bytes(t, lay) for t, lay in zip(types, known, strict=True))
        moved += storage_bytes(y, layout)
        cost = DISPATCH_COST + moved * BYTE_COST * (1.0 if plan.wide else _SCALAR_PENALTY)
        needed = known[: len(problem.inputs)]
        if isinstance(problem.op, logic.Where):
            needed = [known[2], *known[:2]]
        emit = _Emit(problem.op, y, layout, plan)
        found.append(Candidate(f"logic_{layout.value}", tuple(needed), (layout,), emit, cost))
    return found


class _Emit:
    def __init__(self, op: Op, y: TensorType, layout: Layout, plan: Broadcast) -> None:
        self.op, self.y, self.layout, self.plan = op, y, layout, plan

    def __call__(self, emitter: Emitter) -> None:
        y, plan = self.y, self.plan
        count = vector_count(y, self.layout)
        share = grid(emitter.problem.limits, count, count if plan.wide else y.size)
        operands = self._operands(emitter)
        tail, location = 0, [1, 1, 0]
        if self.layout is Layout.C4:
            _, channels, *spatial = y.dims
            tail = int(channels % 4 != 0)
            location = [math.prod(spatial), -(-channels // 4), channels]
        read = read4 if plan.wide else read1
        choice = isinstance(self.op, logic.Where)
        spec = share.spec | plan.spec | {_TAIL: tail}
        emitter.dispatch(
            "elementwise/where" if choice else "elementwise/compare",
            [*(read(operand) for operand in operands), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, y.size, *location, *plan.push],
            spec=spec if choice else spec | {_KIND: _KINDS[type(self.op)]},
            defines={"ELEM": int(not operands[0].is_float), "WIDE": int(plan.wide)},
        )

    def _operands(self, emitter: Emitter) -> list[Ref]:
        if isinstance(self.op, logic.Where):
            return [emitter.input(1), emitter.input(2), emitter.input(0)]
        if isinstance(self.op, logic.Not):
            one = emitter.weight("one", lambda: np.ones(4, np.int32))
            return [emitter.input(0), one]
        return [emitter.input(0), emitter.input(1)]
