"""IntegerLSTM: a loop in a workgroup, or a dispatch for each phase, as RNN, GRU and LSTM."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, update, write
from vknn.lowering.kit.grid_loop import group_size
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import Push, Spec
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, rounds, spread
from vknn.ops.recurrent.integer_lstm import IntegerLSTM, IntegerLSTMSizes, gate_tables
from vknn.plan import DeviceLimits

#: Inputs that are weights.
_WEIGHTS = (1, 2, 3, 4, 7, 8, 9, 10, 11)
#: Words of the settings and of the tables of the functions in the packed weights.
_SETTINGS, _TABLE_WORDS = 43, 3 * 32768
#: Units whose sum of 16-bit numbers has 32 bits.
_MOST_NORMALIZED = 1 << 15
#: Workgroups that an otherwise idle device would have room for.
_IDLE = 8


@lowers(IntegerLSTM)
def integer_lstm(problem: Problem) -> Sequence[Candidate]:
    """Candidates: a loop within a workgroup, a dispatch for each phase."""
    shape, limits = _shape(problem), problem.limits
    if shape is None or not fits_buffer(limits, max(shape.words, shape.state)):
        return []
    if shape.normalized and shape.sizes.units >= _MOST_NORMALIZED:
        return []
    inputs = tuple(
        None if t is None or i in _WEIGHTS else Layout.LINEAR for i, t in enumerate(problem.inputs)
    )
    outputs = (Layout.LINEAR,) * 3
    machine = problem.machine
    work = shape.sizes.steps * shape.flops * machine.flop
    found = []
    if _loop_fits(shape, limits):
        emit = functools.partial(_emit_loop, shape=shape)
        cost = machine.dispatch + work * max(1.0, _IDLE / shape.sizes.batch)
        found.append(Candidate("loop", inputs, outputs, emit, cost))
    if _steps_fit(shape, limits):
        emit = functools.partial(_emit_steps, shape=shape)
        cost = shape.sizes.steps * len(shape.phases) * machine.dispatch + work
        found.append(Candidate("steps", inputs, outputs, emit, cost))
    return found


@dataclass(frozen=True)
class _Shape:
    """An IntegerLSTM whose weights are constants."""

    op: IntegerLSTM
    sizes: IntegerLSTMSizes
    peepholes: bool
    normalized: bool
    projection: bool

    @property
    def rows(self) -> int:
        """Rows of W and R."""
        return self.sizes.gates * self.sizes.units

    @property
    def slots(self) -> int:
        """Numbers of an entry's state: h, c, the sums of the gates, what is projected."""
        return self.sizes.outputs + 2 * self.sizes.units + self.rows

    @property
    def state(self) -> int:
        """Numbers of the state of all entries."""
        return self.sizes.batch * self.slots

    @property
    def places(self) -> tuple[int, ...]:
        """Places of the tables, W, R, the biases, P, norm and the projection, and of the end."""
        s, rows = self.sizes, self.rows
        lengths = [_SETTINGS, _TABLE_WORDS, ceil_div(s.inputs, 4) * rows]
        lengths += [ceil_div(s.outputs, 4) * rows, 2 * rows]
        lengths += [3 * s.units * s.batch * int(self.peepholes), 2 * rows * int(self.normalized)]
        lengths += [(ceil_div(s.units, 4) + 1) * s.outputs * int(self.projection)]
        return tuple(int(n) for n in np.cumsum(lengths))

    @property
    def words(self) -> int:
        """32-bit words of the packed weights."""
        return self.places[-1]

    @property
    def phases(self) -> tuple[int, ...]:
        """PHASEs of a step."""
        return (0, 1, 2, 3) if self.projection else (0, 1, 2)

    @property
    def flops(self) -> int:
        """Integer operations of a step."""
        s = self.sizes
        projected = s.units * s.outputs * int(self.projection)
        return 2 * s.batch * (self.rows * (s.inputs + s.outputs) + projected)

    def items(self, phase: int) -> int:
        """Rows of a phase, of which a lane has one at a time."""
        return (self.rows, self.sizes.units, self.sizes.units, self.sizes.outputs)[phase]

    def phase_rounds(self, phase: int, blocks: int) -> int:
        """Rounds of a lane's loops in a phase, with ``blocks`` rows to a lane."""
        s, words = self.sizes, ceil_div(self.sizes.units, 4)
        row = rounds(ceil_div(s.inputs, 4)) + rounds(ceil_div(s.outputs, 4))
        item = (row, 0, 0, rounds(words))[phase]
        gates = (0, s.gates - 1, 1, 0)[phase] if self.normalized else 0
        # The inverse root has two loops of 7 rounds and their ends.
        return blocks * (1 + item) + 1 + gates * (rounds(s.units) + 9)


def _shape(problem: Problem) -> _Shape | None:
    op, given = problem.op, problem.inputs
    assert isinstance(op, IntegerLSTM)
    present = [i < len(given) and given[i] is not None for i in range(12)]
    if any(t is not None and t.size == 0 for t in given):
        return None
    if any(present[i] and problem.constants[i] is None for i in _WEIGHTS):
        return None
    sizes = op.sizes(*given[:3])
    return _Shape(op, sizes, present[7], present[8], present[10])


def _loop_fits(shape: _Shape, limits: DeviceLimits) -> bool:
    memory = 4 * shape.slots <= limits.shared_memory
    return memory and fits(shape.sizes.batch, limits) and _steps_at_once(shape, limits) > 0


def _steps_fit(shape: _Shape, limits: DeviceLimits) -> bool:
    lanes = group_size(limits)
    longest = max(shape.phase_rounds(p, 1) for p in shape.phases)
    groups = shape.sizes.batch * max(ceil_div(shape.items(p), lanes) for p in shape.phases)
    return longest < limits.max_loop_rounds and fits(groups, limits)


def _loop_lanes(shape: _Shape, limits: DeviceLimits) -> int:
    if limits.kind == "cpu":
        return group_size(limits)
    most = min(256, limits.max_group_invocations, limits.max_group_size[0])
    return min(most, 1 << (shape.rows - 1).bit_length())


def _steps_at_once(shape: _Shape, limits: DeviceLimits) -> int:
    """Steps that one dispatch of the loop may take, as a lane's loops allow."""
    lanes = _loop_lanes(shape, limits)
    held = shape.sizes.outputs + shape.sizes.units
    step = sum(shape.phase_rounds(p, ceil_div(shape.items(p), lanes)) for p in shape.phases)
    room = limits.max_loop_rounds - 2 * rounds(ceil_div(held, lanes)) - 1
    return min(shape.sizes.steps, room // (1 + step))


def _emit_loop(emitter: Emitter, shape: _Shape) -> None:
    """A workgroup takes an entry through many steps, in dispatches of about equal length."""
    limits, sizes = emitter.problem.limits, shape.sizes
    state = emitter.scratch("state", sizes.batch * (sizes.outputs + sizes.units), dtype=DType.INT32)
    bindings = _emit_start(emitter, shape, state)
    lanes = _loop_lanes(shape, limits)
    each = ceil_div(sizes.steps, ceil_div(sizes.steps, _steps_at_once(shape, limits)))
    for first in range(0, sizes.steps, each):
        count = min(each, sizes.steps - first)
        emitter.dispatch(
            "recurrent/integer",
            bindings,
            groups=spread(sizes.batch, limits),
            local=(lanes, 1, 1),
            push=_push(shape, first=first, count=count, blocks=1),
            spec={**_spec(shape, lanes), "SLOTS": shape.slots},
            defines={"LOOP": 1},
            flops=count * shape.flops,
        )
    _emit_end(emitter, shape, state)


def _emit_steps(emitter: Emitter, shape: _Shape) -> None:
    """A dispatch for each phase of each step."""
    limits = emitter.problem.limits
    state = emitter.scratch("state", shape.state, dtype=DType.INT32)
    emitter.fill(state)
    bindings = _emit_start(emitter, shape, state)
    lanes = group_size(limits)
    for step in range(shape.sizes.steps):
        for phase in shape.phases:
            blocks = ceil_div(shape.items(phase), lanes)
            emitter.dispatch(
                "recurrent/integer",
                bindings,
                groups=spread(shape.sizes.batch * blocks, limits),
                local=(lanes, 1, 1),
                push=_push(shape, first=step, count=1, blocks=blocks),
                spec={**_spec(shape, lanes), "PHASE": phase},
                defines={"LOOP": 0},
                flops=shape.flops // len(shape.phases),
            )
    _emit_end(emitter, shape, state)


def _state_bytes(shape: _Shape) -> tuple[int, int]:
    """Bytes of h and of c, with which the state begins."""
    s = shape.sizes
    return 4 * s.batch * s.outputs, 4 * s.batch * s.units


def _emit_start(emitter: Emitter, shape: _Shape, state: Ref) -> list[BoundBuffer]:
    """Copies h and c into the state; the bindings of recurrent/integer."""
    of_h, of_c = _state_bytes(shape)
    emitter.copy(emitter.input(5), state, of_h)
    emitter.copy(emitter.input(6), state, of_c, 0, of_h)
    weights = _packed_weights(emitter, shape)
    return [read1(emitter.input(0)), read1(weights), update(state), write(emitter.output())]


def _emit_end(emitter: Emitter, shape: _Shape, state: Ref) -> None:
    """Copies the last h and c out of the state."""
    of_h, of_c = _state_bytes(shape)
    emitter.copy(state, emitter.output(1), of_h)
    emitter.copy(state, emitter.output(2), of_c, of_h)


def _packed_weights(emitter: Emitter, shape: _Shape) -> Ref:
    constants = emitter.problem.constants
    arrays = [constants[i] if i < len(constants) else None for i in _WEIGHTS]
    sources = tuple(a for a in arrays if a is not None)
    return emitter.weight(f"integer lstm {shape.op}", lambda: packed(shape.op, arrays), *sources)


def _push(shape: _Shape, *, first: int, count: int, blocks: int) -> Push:
    """Push constants of recurrent/integer: ``count`` steps from ``first`` on."""
    s, batch_first = shape.sizes, shape.op.layout == 1
    tables, w, r, bias, p, norm, projection, _ = shape.places
    return {
        "units": s.units,
        "rows": shape.rows,
        "inputs": s.inputs,
        "outputs": s.outputs,
        "x_step": s.inputs if batch_first else s.batch * s.inputs,
        "x_batch": s.steps * s.inputs if batch_first else s.inputs,
        "y_step": s.outputs if batch_first else s.batch * s.outputs,
        "y_batch": s.steps * s.outputs if batch_first else s.outputs,
        "batch": s.batch,
        "blocks": blocks,
        "first": first,
        "count": count,
        "tables_at": tables,
        "w_at": w,
        "r_at": r,
        "bias_at": bias,
        "p_at": p,
        "norm_at": norm,
        "projection_at": projection,
    }


def _spec(shape: _Shape, lanes: int) -> Spec:
    """Specialization constants of recurrent/integer but for PHASE and SLOTS."""
    return {
        "LANES": lanes,
        "PHASE": None,
        "PEEPHOLES": int(shape.peepholes),
        "NORMALIZED": int(shape.normalized),
        "PROJECTION": int(shape.projection),
        "COUPLED": int(shape.sizes.gates == 3),
    }


def packed(op: IntegerLSTM, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    """The constants of recurrent/integer, int32, in the order that its comment gives."""
    w, r, shift_w, shift_r, p, norm, norm_bias, projection, shift = arrays
    assert w is not None and r is not None and shift_w is not None and shift_r is not None
    tables = gate_tables(op.cell_bits).astype(np.int16).view(np.int32)
    parts = [_settings(op), tables, _words(w), _words(r), shift_w, shift_r, p, norm, norm_bias]
    parts += [None if projection is None else _words(projection), shift]
    return np.concatenate([a.reshape(-1).astype(np.int32) for a in parts if a is not None])


def _settings(op: IntegerLSTM) -> np.ndarray:
    found = np.zeros(_SETTINGS, np.int32)
    for at, apart, pairs in (
        (0, 4, op.input_multipliers),
        (8, 4, op.state_multipliers),
        (16, 3, op.peephole_multipliers),
        (22, 4, tuple((q, shift + 12) for q, shift in op.norm_multipliers)),
    ):
        for place, (q, shift) in enumerate(pairs):
            found[at + place], found[at + apart + place] = q, shift
    found[30 : 30 + len(op.variance_guards)] = op.variance_guards
    found[34:] = (
        *op.hidden_multiplier, op.hidden_zero, *op.projection_multiplier, op.output_zero,
        15 + op.cell_bits, op.cell_clip, op.projection_clip,
    )  # fmt: skip
    return found


def _words(weights: np.ndarray) -> np.ndarray:
    """Weights int8 [rows, n] as words [ceil(n / 4), rows]: four of a row each, the first lowest."""
    rows, length = weights.shape
    wide = np.pad(weights, ((0, 0), (0, -length % 4))).reshape(rows, -1, 4)
    return np.ascontiguousarray(np.ascontiguousarray(wide).view("<i4")[:, :, 0].T)
