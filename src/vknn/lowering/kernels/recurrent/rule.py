"""RNN, GRU and LSTM: one GEMM of all steps with the input, then the steps.

The steps are taken in one of two ways. "loop": a workgroup has a batch entry of a direction to
itself and goes through the steps in a loop, its state in shared memory; several dispatches one
after the other where a lane's loops would be too long for one. "steps": dispatches for each step,
in which many workgroups share the units. The state lies in a buffer between dispatches.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.lowering.kernels.recurrent.input_gemm import InputGemm, emit_input_gemm, input_gemm
from vknn.lowering.kernels.recurrent.shape import (
    RNN_CELL,
    WEIGHTS,
    Lanes,
    RecurrentShape,
    find_shape,
    gemm_size,
    loop_lanes,
    packed_size,
    state_matrix,
    step_lanes,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.parameters import Push, Spec
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, spread
from vknn.ops.quantized.dynamic import ROUNDINGS
from vknn.ops.recurrent.rnn import ACTIVATIONS, DIRECTIONS, GRU, LSTM, RNN
from vknn.plan import DeviceLimits

#: Workgroups that an otherwise idle device would have room for, by kind.
_IDLE = {"cpu": 4, "other": 16}
#: How much longer a matrix-vector product takes that reads its vector from shared memory (measured
#: on llvmpipe).
_SHARED_COST = 2.0


@lowers(RNN, GRU, LSTM)
def recurrent(problem: Problem) -> Sequence[Candidate]:
    """Candidates: a loop within a workgroup, dispatches for each step."""
    shape, limits = find_shape(problem), problem.limits
    if shape is None or any(map(_hides_specials, shape.op.functions)):
        return []
    gemm = input_gemm(shape, limits)
    if not _buffers_fit(shape, limits) or not gemm.fits(limits):
        return []
    weights = WEIGHTS[type(shape.op)]
    inputs = tuple(
        None if t is None or i in weights else Layout.LINEAR for i, t in enumerate(problem.inputs)
    )
    outputs = (Layout.LINEAR,) * len(problem.outputs)
    machine = problem.machine
    before = 3 * machine.dispatch + gemm.sizes.flops * machine.flop
    before += 8 * (gemm_size(shape) + shape.steps * shape.batch * shape.inputs) * machine.byte
    found = []
    if _loop_fits(shape, limits):
        emit = functools.partial(_emit_loop, shape=shape, gemm=gemm)
        cost = before + _loop_cost(shape, limits)
        found.append(Candidate("loop", inputs, outputs, emit, cost))
    if _steps_fit(shape, limits):
        emit = functools.partial(_emit_steps, shape=shape, gemm=gemm)
        of_a_step = len(shape.phases) * machine.dispatch + shape.flops * machine.flop
        found.append(Candidate("steps", inputs, outputs, emit, before + shape.steps * of_a_step))
    return found


def _hides_specials(function: tuple[str, float, float]) -> bool:
    """True for an activation with a factor 0: compilers take its product with NaN to be 0."""
    name, alpha, beta = function
    factors = {"ScaledTanh": (alpha, beta)} | dict.fromkeys(
        ("Affine", "LeakyRelu", "HardSigmoid"), (alpha,)
    )
    return 0 in factors.get(name, ())


def _buffers_fit(shape: RecurrentShape, limits: DeviceLimits) -> bool:
    state = 4 * shape.entries * shape.slots
    largest = max(packed_size(shape), gemm_size(shape), state)
    return fits_buffer(limits, largest) and fits(max(state, shape.steps * shape.batch), limits)


def _loop_fits(shape: RecurrentShape, limits: DeviceLimits) -> bool:
    shared = loop_lanes(shape, limits).shared_bytes(shape, state=True)
    return shared <= limits.shared_memory and _steps_at_once(shape, limits) > 0


def _loop_cost(shape: RecurrentShape, limits: DeviceLimits) -> float:
    idle = max(1.0, _IDLE.get(limits.kind, _IDLE["other"]) / shape.entries)
    machine = machine_of(limits)
    work = shape.steps * shape.flops * machine.flop * idle * _SHARED_COST
    return ceil_div(shape.steps, _steps_at_once(shape, limits)) * machine.dispatch + work


def _steps_at_once(shape: RecurrentShape, limits: DeviceLimits) -> int:
    """Steps that one dispatch of the loop may take, as a lane's loops allow."""
    lanes = loop_lanes(shape, limits)
    room = limits.max_loop_rounds - shape.copy_rounds(lanes) - 1
    return min(shape.steps, room // (1 + shape.step_rounds(lanes)))


def _steps_fit(shape: RecurrentShape, limits: DeviceLimits) -> bool:
    lanes = step_lanes(shape, limits)
    longest = max(shape.sum_rounds(phase, lanes) for phase in shape.phases)
    groups = max(shape.entries * shape.blocks(phase, lanes) for phase in shape.phases)
    memory = lanes.shared_bytes(shape, state=False) <= limits.shared_memory
    return longest < limits.max_loop_rounds and fits(groups, limits) and memory


@dataclass(frozen=True)
class _Buffers:
    """The bindings of recurrent/steps, the state among them.

    ``fresh``: there are no initial states, so that the state begins with zeros.
    """

    bindings: Sequence[BoundBuffer]
    state: Ref
    fresh: bool


def _emit_loop(emitter: Emitter, shape: RecurrentShape, gemm: InputGemm) -> None:
    """A workgroup takes an entry through many steps, in dispatches of about equal length."""
    limits, buffers = emitter.problem.limits, _emit_start(emitter, shape, gemm)
    lanes, most = loop_lanes(shape, limits), _steps_at_once(shape, limits)
    each = ceil_div(shape.steps, ceil_div(shape.steps, most))
    for first in range(0, shape.steps, each):
        count, fresh = min(each, shape.steps - first), buffers.fresh and first == 0
        emitter.dispatch(
            "recurrent/steps",
            buffers.bindings,
            groups=spread(shape.entries, limits),
            local=lanes.local,
            push=_push(shape, first=first, count=count, blocks=1, fresh=fresh),
            spec={**_spec(shape, lanes), "SLOTS": shape.slots},
            defines={"LOOP": 1},
            flops=count * shape.flops,
        )
    _emit_states(emitter, shape, buffers.state, load=False)


def _emit_steps(emitter: Emitter, shape: RecurrentShape, gemm: InputGemm) -> None:
    """A dispatch for each phase of each step."""
    limits, buffers = emitter.problem.limits, _emit_start(emitter, shape, gemm)
    lanes = step_lanes(shape, limits)
    if buffers.fresh:
        emitter.fill(buffers.state)
    for step in range(shape.steps):
        for phase in shape.phases:
            blocks = shape.blocks(phase, lanes)
            emitter.dispatch(
                "recurrent/steps",
                buffers.bindings,
                groups=spread(shape.entries * blocks, limits),
                local=lanes.local,
                push=_push(shape, first=step, count=1, blocks=blocks, fresh=False),
                spec={**_spec(shape, lanes), "PHASE": phase},
                defines={"LOOP": 0},
                flops=shape.flops // len(shape.phases),
            )
    _emit_states(emitter, shape, buffers.state, load=False)


def _emit_start(emitter: Emitter, shape: RecurrentShape, gemm: InputGemm) -> _Buffers:
    """Dispatches before the steps: the GEMM, and the initial states into the buffer."""
    products = emit_input_gemm(emitter, shape, gemm)
    state = emitter.scratch("state", 4 * shape.entries * shape.slots)
    fresh = all(ref is None for ref in emitter.inputs[4:6])
    if not fresh:
        _emit_states(emitter, shape, state, load=True)
    weights = _state_weights(emitter, shape)
    bindings = [read4(products), read4(weights), update(state), write(emitter.output())]
    return _Buffers(bindings, state, fresh)


def _state_weights(emitter: Emitter, shape: RecurrentShape) -> Ref:
    """The packed weights that multiply the state."""
    constants = emitter.problem.constants
    r = constants[2]
    assert r is not None
    others = [constants[i] if i < len(constants) else None for i in (3, 6, 7, 8, 9)]
    sources = [a for a in (r, *others) if a is not None]
    present = "".join(str(int(a is not None)) for a in others)
    key = f"recurrent state {present}"
    return emitter.weight(key, lambda: state_matrix(shape, r, *others), *sources)


def _emit_states(emitter: Emitter, shape: RecurrentShape, state: Ref, *, load: bool) -> None:
    """Initial states into the buffer, or final ones out of it."""
    lstm = isinstance(shape.op, LSTM)
    width = shape.outputs + (shape.hidden if lstm else 0)
    size = 4 * shape.entries * shape.slots
    count = size if load else shape.entries * width
    bindings, present = _state_bindings(emitter, state, lstm, load)
    emitter.dispatch_items(
        "recurrent/states",
        bindings,
        grid(emitter.problem.limits, count, indices=size),
        push={
            "count": count,
            "slots": 4 * shape.slots,
            "outputs": shape.outputs,
            "units": shape.hidden,
            "h_at": 0 if load or shape.steps % 2 == 0 else 4 * shape.h4,
            "c_at": 8 * shape.h4,
            "batch": shape.batch,
            "directions": shape.op.directions,
            "inner": shape.op.layout,
        },
        spec=present,
        defines={"LOAD": int(load), "CELLS": int(lstm)},
    )


def _state_bindings(
    emitter: Emitter, state: Ref, lstm: bool, load: bool
) -> tuple[list[BoundBuffer], Spec]:
    """Bindings of recurrent/states; which of the initial states there are."""
    if not load:
        outputs = [write(ref) for ref in emitter.outputs[1:]]
        return [read1(state), *outputs], {"HAS_H": None, "HAS_C": None}
    h, c = [*emitter.inputs[4:6], None, None][:2]
    spare = h or c
    assert spare is not None
    given = [read1(ref or spare) for ref in (h, c)[: 1 + int(lstm)]]
    return [write(state), *given], {"HAS_H": int(h is not None), "HAS_C": int(c is not None)}


def _push(shape: RecurrentShape, *, first: int, count: int, blocks: int, fresh: bool) -> Push:
    """Push constants of recurrent/steps: ``count`` steps from ``first`` on."""
    directions, outputs, batch_first = shape.op.directions, shape.outputs, shape.op.layout == 1
    row = shape.columns // 4
    return {
        "units": shape.hidden,
        "units4": shape.units4,
        "outputs": outputs,
        "h4": shape.h4,
        "x_step": row if batch_first else shape.batch * row,
        "x_batch": shape.steps * row if batch_first else row,
        "y_step": directions * outputs * (1 if batch_first else shape.batch),
        "y_batch": shape.steps * directions * outputs if batch_first else outputs,
        "y_direction": outputs if batch_first else shape.batch * outputs,
        "w_direction": shape.state_weights // 4,
        "entries": shape.entries,
        "batch": shape.batch,
        "blocks": blocks,
        "steps": shape.steps,
        "first": first,
        "count": count,
        "reverse": DIRECTIONS.index(shape.op.direction),
        "slots": shape.slots,
        "fresh": int(fresh),
    }


def _spec(shape: RecurrentShape, lanes: Lanes) -> dict[str, int | float | None]:
    """Specialization constants of recurrent/steps but for PHASE and SLOTS."""
    op = shape.op
    lstm = op if isinstance(op, LSTM) else LSTM()
    return {
        "LANES_X": lanes.x,
        "LANES_Y": lanes.y,
        "CELL": shape.cell,
        "PHASE": None,
        "PROJECTION": int(shape.projection),
        "PEEPHOLES": int(shape.peepholes),
        "COUPLED": int(lstm.input_forget),
        "ROUNDED": ROUNDINGS.index(op.state_rounding),
        "NORMALIZED": int(shape.normalized),
        "PROJECTION_ROUNDED": ROUNDINGS.index(lstm.projection_rounding),
        "OF_CANDIDATE": int(lstm.output_of == "candidate"),
        "EPSILON": float(lstm.norm_epsilon),
        **_bounds_spec(op.clip, lstm.cell_clip, lstm.projection_clip),
        **_activations_spec(shape),
    }


def _bounds_spec(*bounds: float) -> dict[str, int | float]:
    names = ("CLIP", "CELL_CLIP", "PROJECTION_CLIP")
    present = sum(1 << i for i, bound in enumerate(bounds) if bound)
    return {n: float(b) for n, b in zip(names, bounds, strict=True)} | {"BOUNDED": present}


def _activations_spec(shape: RecurrentShape) -> dict[str, int | float | None]:
    """The activations F, G, H; an RNN's only one is G, that of the candidate."""
    letters = "G" if shape.cell == RNN_CELL else "FGH"
    spec: dict[str, int | float | None]
    spec = {f"{x}_{part}": None for x in "FGH" for part in ("CODE", "ALPHA", "BETA")}
    for letter, (name, alpha, beta) in zip(letters, shape.op.functions, strict=False):
        spec[f"{letter}_CODE"] = list(ACTIVATIONS).index(name)
        spec[f"{letter}_ALPHA"], spec[f"{letter}_BETA"] = float(alpha), float(beta)
    return spec
