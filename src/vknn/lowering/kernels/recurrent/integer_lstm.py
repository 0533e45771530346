"""IntegerLSTM: by a loop in a workgroup or by a dispatch a phase, as the ops on floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.candidate import DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Bound, Emitter, Ref, ceil_div, read1, update, write
from vknn.lowering.kit.grid_loop import group_size
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, rounds, spread
from vknn.ops.recurrent.integer_lstm import IntegerLSTM, Sizes, gate_tables
from vknn.plan import DeviceLimits

_WEIGHTS = (1, 2, 3, 4, 7, 8, 9, 10, 11)
_SETTINGS, _TABLE_WORDS = 43, 3 * 32768
#: Units whose sum of 16-bit numbers has 32 bits.
_MOST_NORMALIZED = 1 << 15
#: Workgroups that an otherwise idle device would have room for.
_IDLE = 8


@lowers(IntegerLSTM)
def integer_lstm(problem: Problem) -> Sequence[Candidate]:
    """By a loop within a workgroup, by a dispatch a phase."""
    shape, limits = _shape(problem), problem.limits
    if shape is None or not fits_buffer(limits, max(shape.words, shape.state)):
        return []
    if shape.normalized and shape.sizes.units >= _MOST_NORMALIZED:
        return []
    inputs = tuple(
        None if t is None or i in _WEIGHTS else Layout.LINEAR for i, t in enumerate(problem.inputs)
    )
    work = shape.sizes.steps * shape.flops * FLOP_COST
    found = []
    for name, way, cost in (
        ("loop", _Loop(shape), DISPATCH_COST + work * max(1.0, _IDLE / shape.sizes.batch)),
        ("steps", _Steps(shape), shape.sizes.steps * len(shape.phases) * DISPATCH_COST + work),
    ):
        if way.fits(limits):
            found.append(Candidate(name, inputs, (Layout.LINEAR,) * 3, way, cost))
    return found


@dataclass(frozen=True)
class _Shape:
    """An IntegerLSTM whose weights are constants, as the kernel sees it."""

    op: IntegerLSTM
    sizes: Sizes
    peepholes: bool
    normalized: bool
    projection: bool

    @property
    def rows(self) -> int:
        return self.sizes.gates * self.sizes.units

    @property
    def slots(self) -> int:
        """Numbers of an entry's state: h, c, the sums of the gates, what is projected."""
        return self.sizes.outputs + 2 * self.sizes.units + self.rows

    @property
    def state(self) -> int:
        return self.sizes.batch * self.slots

    @property
    def places(self) -> tuple[int, ...]:
        """Where tables, W, R, the biases, P, norm and the projection begin, and where all ends."""
        s, rows = self.sizes, self.rows
        lengths = [_SETTINGS, _TABLE_WORDS, ceil_div(s.inputs, 4) * rows]
        lengths += [ceil_div(s.outputs, 4) * rows, 2 * rows]
        lengths += [3 * s.units * s.batch * int(self.peepholes), 2 * rows * int(self.normalized)]
        lengths += [(ceil_div(s.units, 4) + 1) * s.outputs * int(self.projection)]
        return tuple(int(n) for n in np.cumsum(lengths))

    @property
    def words(self) -> int:
        return self.places[-1]

    @property
    def phases(self) -> tuple[int, ...]:
        return (0, 1, 2, 3) if self.projection else (0, 1, 2)

    @property
    def flops(self) -> int:
        """Of a step."""
        s = self.sizes
        projected = s.units * s.outputs * int(self.projection)
        return 2 * s.batch * (self.rows * (s.inputs + s.outputs) + projected)

    def items(self, phase: int) -> int:
        """Rows of a phase, of which a lane has one at a time."""
        return (self.rows, self.sizes.units, self.sizes.units, self.sizes.outputs)[phase]

    def phase_rounds(self, phase: int, blocks: int) -> int:
        """Rounds of a lane's loops in a phase of so many rows a lane."""
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


@dataclass(frozen=True, eq=False)
class _Way:
    """What both ways to take the steps share."""

    shape: _Shape

    def fits(self, limits: DeviceLimits) -> bool:
        raise NotImplementedError

    def __call__(self, emitter: Emitter) -> None:
        s = self.shape.sizes
        of_h, of_c = 4 * s.batch * s.outputs, 4 * s.batch * s.units
        state = self._state(emitter)
        emitter.copy(emitter.input(5), state, of_h)
        emitter.copy(emitter.input(6), state, of_c, 0, of_h)
        weights = self._weights(emitter)
        x, y = emitter.input(0), emitter.output()
        self._take_steps(emitter, [read1(x), read1(weights), update(state), write(y)])
        emitter.copy(state, emitter.output(1), of_h)
        emitter.copy(state, emitter.output(2), of_c, of_h)

    def _state(self, emitter: Emitter) -> Ref:
        """A buffer that begins with h and c."""
        raise NotImplementedError

    def _take_steps(self, emitter: Emitter, bindings: list[Bound]) -> None:
        raise NotImplementedError

    def _weights(self, emitter: Emitter) -> Ref:
        constants = emitter.problem.constants
        arrays = [constants[i] if i < len(constants) else None for i in _WEIGHTS]
        sources = tuple(a for a in arrays if a is not None)
        key = f"integer lstm {self.shape.op}"
        return emitter.weight(key, lambda: packed(self.shape.op, arrays), *sources)

    def _push(self, first: int, count: int, blocks: int) -> list[int]:
        s, shape = self.shape.sizes, self.shape
        inner = shape.op.layout == 1
        x = (s.inputs, s.steps * s.inputs) if inner else (s.batch * s.inputs, s.inputs)
        y = (s.outputs, s.steps * s.outputs) if inner else (s.batch * s.outputs, s.outputs)
        sizes = [s.units, shape.rows, s.inputs, s.outputs, *x, *y, s.batch, blocks]
        return [*sizes, first, count, *shape.places[:7]]

    def _spec(self, lanes: int) -> dict[int, int | float]:
        shape = self.shape
        flags = (shape.peepholes, shape.normalized, shape.projection, shape.sizes.gates == 3)
        spec: dict[int, int | float] = {10: lanes}
        return spec | {12 + i: int(flag) for i, flag in enumerate(flags)}


class _Loop(_Way):
    """A workgroup takes an entry through many steps."""

    def fits(self, limits: DeviceLimits) -> bool:
        memory = 4 * self.shape.slots <= limits.shared_memory
        return memory and fits(self.shape.sizes.batch, limits) and self._at_once(limits) > 0

    def _lanes(self, limits: DeviceLimits) -> int:
        if limits.kind == "cpu":
            return group_size(limits)
        most = min(256, limits.max_group_invocations, limits.max_group_size[0])
        return min(most, 1 << (self.shape.rows - 1).bit_length())

    def _at_once(self, limits: DeviceLimits) -> int:
        """Steps in one dispatch."""
        shape, lanes = self.shape, self._lanes(limits)
        held = shape.sizes.outputs + shape.sizes.units
        step = sum(shape.phase_rounds(p, ceil_div(shape.items(p), lanes)) for p in shape.phases)
        room = limits.max_loop_rounds - 2 * rounds(ceil_div(held, lanes)) - 1
        return min(shape.sizes.steps, room // (1 + step))

    def _state(self, emitter: Emitter) -> Ref:
        s = self.shape.sizes
        return emitter.scratch("state", s.batch * (s.outputs + s.units), dtype=DType.INT32)

    def _take_steps(self, emitter: Emitter, bindings: list[Bound]) -> None:
        shape, limits = self.shape, emitter.problem.limits
        lanes, steps = self._lanes(limits), shape.sizes.steps
        each = ceil_div(steps, ceil_div(steps, self._at_once(limits)))
        for first in range(0, steps, each):
            count = min(each, steps - first)
            emitter.dispatch(
                "recurrent/integer",
                bindings,
                groups=spread(shape.sizes.batch, limits),
                local=(lanes, 1, 1),
                push=self._push(first, count, 1),
                spec=self._spec(lanes) | {16: shape.slots},
                defines={"LOOP": 1},
                flops=count * shape.flops,
            )


class _Steps(_Way):
    """A dispatch for each phase of each step."""

    def fits(self, limits: DeviceLimits) -> bool:
        shape, lanes = self.shape, group_size(limits)
        longest = max(shape.phase_rounds(p, 1) for p in shape.phases)
        groups = shape.sizes.batch * max(ceil_div(shape.items(p), lanes) for p in shape.phases)
        return longest < limits.max_loop_rounds and fits(groups, limits)

    def _state(self, emitter: Emitter) -> Ref:
        state = emitter.scratch("state", self.shape.state, dtype=DType.INT32)
        emitter.fill(state)
        return state

    def _take_steps(self, emitter: Emitter, bindings: list[Bound]) -> None:
        shape, limits = self.shape, emitter.problem.limits
        lanes = group_size(limits)
        for step in range(shape.sizes.steps):
            for phase in shape.phases:
                blocks = ceil_div(shape.items(phase), lanes)
                emitter.dispatch(
                    "recurrent/integer",
                    bindings,
                    groups=spread(shape.sizes.batch * blocks, limits),
                    local=(lanes, 1, 1),
                    push=self._push(step, 1, blocks),
                    spec=self._spec(lanes) | {11: phase},
                    defines={"LOOP": 0},
                    flops=shape.flops // len(shape.phases),
                )


def packed(op: IntegerLSTM, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    """The kernel's constants, one after the other as its comment says, int32."""
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
    """int8 [rows, n] as [ceil(n / 4), rows], four numbers of a row a word, the first lowest."""
    rows, length = weights.shape
    wide = np.pad(weights, ((0, 0), (0, -length % 4))).reshape(rows, -1, 4)
    return np.ascontiguousarray(np.ascontiguousarray(wide).view("<i4")[:, :, 0].T)
