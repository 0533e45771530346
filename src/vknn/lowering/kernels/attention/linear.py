"""Lowering of LinearAttention: a lane takes a column of the state through many steps.

The inputs are joined in one buffer first: devices have to allow four at a time, no more.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_lanes, rounds
from vknn.ops.attention import LinearAttention

#: Push constants for where all inputs but q begin.
_STARTS = ("k_at", "v_at", "state_at", "decay_at", "beta_at")


@lowers(LinearAttention)
def linear_attention(problem: Problem) -> Sequence[Candidate]:
    """One candidate; as many dispatches as the loops of a lane make necessary."""
    op, q, state = problem.op, problem.input(0), problem.input(3)
    assert isinstance(op, LinearAttention)
    each = _steps_at_once(problem, op, state.dims[2])
    limits, length, (batch, groups, _, width) = problem.limits, q.dims[1], state.dims
    if 0 in (*q.dims, *state.dims) or each < 1:
        return []
    if not fits_buffer(limits, _places(problem)[-1]) or not fits_lanes(
        batch * groups * width, limits
    ):
        return []
    emit = functools.partial(_emit, op=op, q=q, state=state, each=each)
    machine, dispatches = problem.machine, ceil_div(length, each)
    cost = dispatches * machine.dispatch + _flops(op, q, state) * machine.flop
    cost += 12 * length * state.size * machine.byte
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    return [Candidate("columns", inputs, (Layout.LINEAR,) * 2, emit, cost)]


def _places(problem: Problem) -> list[int]:
    """Places where the six inputs begin among all, and the end; multiples of 4 elements."""
    places = [0]
    for number in range(6):
        given = problem.inputs[number] if number < len(problem.inputs) else None
        places.append(places[-1] + (0 if given is None else 4 * ceil_div(given.size, 4)))
    return places


def _joined(emitter: Emitter, places: list[int]) -> Ref:
    """All inputs in one buffer."""
    joined = emitter.scratch("inputs", places[-1], as_tensor=True)
    for number, given in enumerate(emitter.problem.inputs):
        if given is not None:
            source, width = emitter.input(number), joined.width
            emitter.copy(source, joined, width * given.size, 0, width * places[number])
    return joined


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
    places, given = _places(emitter.problem), emitter.problem.inputs
    held, decay = emitter.scratch("state", state.size), given[4] if len(given) > 4 else None
    bindings = [
        read1(_joined(emitter, places)),
        update(held),
        write(emitter.output()),
        write(emitter.output(1)),
    ]
    rates = 0 if decay is None else decay.dims[2] // groups
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
                "corrected": int(places[5] < places[6]),
                "begins": int(first == 0),
                "ends": int(first + steps == length),
                **dict(zip(_STARTS, places[1:], strict=False)),
                "scale": float(op.scale),
            },
            flops=_flops(op, q, state) * steps // length,
        )
