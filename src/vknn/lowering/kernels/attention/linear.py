"""Lowering of LinearAttention: a lane takes a column of the state through many steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_lanes, rounds
from vknn.ops.attention import LinearAttention

#: Buffers of the kernel.
_BINDINGS = 9


@lowers(LinearAttention)
def linear_attention(problem: Problem) -> Sequence[Candidate]:
    """One candidate; as many dispatches as the loops of a lane make necessary."""
    op, q, state = problem.op, problem.input(0), problem.input(3)
    assert isinstance(op, LinearAttention)
    each = _steps_at_once(problem, op, state.dims[2])
    limits, length, (batch, groups, _, width) = problem.limits, q.dims[1], state.dims
    if 0 in (*q.dims, *state.dims) or each < 1 or limits.max_storage_buffers < _BINDINGS:
        return []
    if not fits_buffer(limits, state.size) or not fits_lanes(batch * groups * width, limits):
        return []
    emit = functools.partial(_emit, op=op, q=q, state=state, each=each)
    machine, dispatches = problem.machine, ceil_div(length, each)
    cost = dispatches * machine.dispatch + _flops(op, q, state) * machine.flop
    cost += 12 * length * state.size * machine.byte
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    return [Candidate("columns", inputs, (Layout.LINEAR,) * 2, emit, cost)]


def _steps_at_once(problem: Problem, op: LinearAttention, depth: int) -> int:
    """Steps of a dispatch, as a lane's loops allow."""
    sharing = op.num_heads // op.kv_heads
    step = 2 * rounds(depth) + rounds(sharing, depth)
    # The loop over items, the loops that load and store the state, the end of that over steps.
    room = problem.limits.max_loop_rounds - 2 * (1 + rounds(depth)) - 1
    return min(problem.input(0).dims[1], room // (1 + step))


def _flops(op: LinearAttention, q: TensorType, state: TensorType) -> int:
    return q.dims[1] * state.size * (6 + 2 * op.num_heads // op.kv_heads)


def _emit(
    emitter: Emitter, op: LinearAttention, q: TensorType, state: TensorType, each: int
) -> None:
    (_, length, _), (batch, groups, depth, width) = q.dims, state.dims
    given = [
        i < len(emitter.problem.inputs) and emitter.problem.inputs[i] is not None for i in range(6)
    ]
    held = emitter.scratch("state", state.size)
    inputs = [read1(emitter.input(i if given[i] else 0)) for i in range(6)]
    bindings = [*inputs, update(held), write(emitter.output()), write(emitter.output(1))]
    rates = emitter.problem.input(4).dims[2] // groups if given[4] else 0
    each = ceil_div(length, ceil_div(length, each))
    for first in range(0, length, each):
        steps = min(each, length - first)
        emitter.dispatch_items(
            "attention/linear",
            bindings,
            grid(emitter.problem.limits, batch * groups * width, state.size, item_rounds=1 << 30),
            push={
                "count": batch * groups * width,
                "first": first,
                "steps": steps,
                "all_steps": length,
                "groups": groups,
                "sharing": op.num_heads // groups,
                "depth": depth,
                "width": width,
                "rates": rates,
                "corrected": int(given[5]),
                "begins": int(first == 0),
                "ends": int(first + steps == length),
                "scale": float(op.scale),
            },
            flops=_flops(op, q, state) * steps // length,
        )
