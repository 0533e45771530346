"""Shapes of recurrent ops: sizes in vec4s, lanes of workgroups, loop rounds, packed weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.lowering.kit.grid_loop import group_size
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import rounds
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN, Recurrent
from vknn.plan import DeviceLimits

#: CELL of recurrent/steps, and the gates that its first phase computes.
RNN_CELL, LSTM_CELL, GRU_CELL, RESET_LAST_CELL = 0, 1, 2, 3
FIRST_GATES = {RNN_CELL: 1, LSTM_CELL: 4, GRU_CELL: 2, RESET_LAST_CELL: 3}
#: PHASE of recurrent/steps.
_GATES, _NEW, _PROJECTION, _CELL, _OUT = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class RecurrentShape:
    """A recurrent op whose weights are constants. ``hidden``: units; ``outputs``: length of h."""

    op: Recurrent
    steps: int
    batch: int
    inputs: int
    hidden: int
    outputs: int
    projection: bool
    peepholes: bool
    normalized: bool = False

    @property
    def cell(self) -> int:
        """CELL of recurrent/steps."""
        if isinstance(self.op, GRU):
            return RESET_LAST_CELL if self.op.linear_before_reset else GRU_CELL
        return LSTM_CELL if isinstance(self.op, LSTM) else RNN_CELL

    @property
    def entries(self) -> int:
        """Batch entries over all directions."""
        return self.op.directions * self.batch

    @property
    def units4(self) -> int:
        """vec4s of the units."""
        return ceil_div(self.hidden, 4)

    @property
    def h4(self) -> int:
        """vec4s of h."""
        return ceil_div(self.outputs, 4)

    @property
    def columns(self) -> int:
        """Columns of the input's GEMM: units of all gates of all directions, in whole vec4s."""
        return self.op.directions * self.op.gates * 4 * self.units4

    @property
    def slots(self) -> int:
        """vec4s in the state of an entry."""
        return 2 * self.h4 + (7 if self.normalized else 3) * self.units4

    @property
    def extra_rows(self) -> int:
        """Rows of units behind R: peepholes, or the bias of R in n; norm and B of the gates."""
        first = 3 if self.peepholes else int(self.cell == RESET_LAST_CELL)
        return first + (8 if self.normalized else 0)

    @property
    def state_weights(self) -> int:
        """Scalars of a direction's weights that multiply the state."""
        square = (4 * self.h4 * self.op.gates + self.extra_rows) * self.units4
        return 4 * (square + (4 * self.units4 + 1) * self.h4 * int(self.projection))

    @property
    def phases(self) -> tuple[int, ...]:
        """PHASEs of a step."""
        new: tuple[int, ...] = (_NEW,) if self.cell == GRU_CELL else ()
        if self.normalized:
            new = (_CELL, _OUT)
        return (_GATES, *new, *((_PROJECTION,) if self.projection else ()))

    @property
    def flops(self) -> int:
        """Floating point operations of a step without those of elementwise functions."""
        gates = self.op.gates * self.hidden * self.outputs
        return 2 * self.entries * (gates + int(self.projection) * self.hidden * self.outputs)

    def blocks(self, phase: int, lanes: Lanes) -> int:
        """Workgroups, or rounds of a workgroup, over the results of a phase."""
        return ceil_div(self.h4 if phase == _PROJECTION else self.units4, lanes.x)

    def sum_rounds(self, phase: int, lanes: Lanes) -> int:
        """Rounds of a lane's loops that add up one block of results of a phase."""
        if phase in (_CELL, _OUT):
            return 6 * rounds(self.units4)
        terms = self.units4 if phase == _PROJECTION else self.h4
        rounding = self.op.state_rounding
        if phase == _PROJECTION and isinstance(self.op, LSTM):
            rounding = self.op.projection_rounding
        rounded = rounding != "none"
        return (
            rounds(ceil_div(terms, lanes.y))
            + (rounds(lanes.y) if lanes.y > 1 else 0)
            + (rounds(terms) if rounded else 0)
        )

    def step_rounds(self, lanes: Lanes) -> int:
        """Rounds of a lane's loops in all phases, taken by one workgroup."""
        return sum(
            self.blocks(phase, lanes) * (1 + self.sum_rounds(phase, lanes)) + 1
            for phase in self.phases
        )

    def copy_rounds(self, lanes: Lanes) -> int:
        """Rounds of a lane's loops that bring the state into shared memory and back."""
        return 2 * rounds(ceil_div(self.slots, lanes.count))


@dataclass(frozen=True)
class Lanes:
    """Lanes of a workgroup along the units (``x``) and along the terms of a sum (``y``)."""

    x: int
    y: int

    @property
    def count(self) -> int:
        return self.x * self.y

    @property
    def local(self) -> tuple[int, int, int]:
        return self.x, self.y, 1

    def shared_bytes(self, shape: RecurrentShape, *, state: bool) -> int:
        """Shared memory of recurrent/steps, with the state in it or without."""
        partial = self.count * FIRST_GATES[shape.cell] if self.y > 1 else 1
        return 16 * (partial + (shape.slots if state else 0))


def loop_lanes(shape: RecurrentShape, limits: DeviceLimits) -> Lanes:
    """Lanes of a workgroup that has an entry to itself."""
    if limits.kind == "cpu":
        return Lanes(group_size(limits), 1)
    most = min(256, limits.max_group_invocations, limits.max_group_size[0])
    x = min(most, _power(max(shape.units4, shape.h4)))
    return Lanes(x, _along_sums(shape, limits, most // x))


def step_lanes(shape: RecurrentShape, limits: DeviceLimits) -> Lanes:
    """Lanes of one of many workgroups that share an entry."""
    if limits.kind == "cpu":
        return Lanes(group_size(limits), 1)
    most = min(128, limits.max_group_invocations, limits.max_group_size[0])
    return Lanes(min(8, most), _along_sums(shape, limits, most // min(8, most)))


def _along_sums(shape: RecurrentShape, limits: DeviceLimits, most: int) -> int:
    return max(1, min(most, limits.max_group_size[1], 16, _power(shape.h4)))


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << max(0, count - 1).bit_length()


def find_shape(problem: Problem) -> RecurrentShape | None:
    """The shape of a recurrent op; None where there is nothing to do or a weight is no constant."""
    op = problem.op
    assert isinstance(op, Recurrent)
    given = problem.inputs
    if any(t is not None and t.size == 0 for t in given):
        return None
    present = [i for i in WEIGHTS[type(op)] if i < len(given) and given[i] is not None]
    if any(problem.constants[i] is None for i in present):
        return None
    s = op.sizes(*given)
    lstm = isinstance(op, LSTM)
    return RecurrentShape(
        op,
        s.steps,
        s.batch,
        s.inputs,
        s.hidden,
        s.outputs,
        projection=lstm and 7 in present,
        peepholes=lstm and 6 in present,
        normalized=lstm and 9 in present,
    )


#: Inputs that are weights.
WEIGHTS: dict[type, tuple[int, ...]] = {
    RNN: (1, 2, 3),
    GRU: (1, 2, 3),
    LSTM: (1, 2, 3, 6, 7, 8, 9),
}


def input_matrix(shape: RecurrentShape, w: np.ndarray) -> np.ndarray:
    """W as a matrix: [D, G H, I] as [I, D G 4 units4]."""
    parts = w.reshape(shape.op.directions, shape.op.gates, shape.hidden, shape.inputs)
    return _padded(parts, {2: 4 * shape.units4}).reshape(-1, shape.inputs).T


def input_bias(shape: RecurrentShape, b: np.ndarray) -> np.ndarray:
    """The bias of the input's GEMM: both halves of B, but for R's of n."""
    parts = b.reshape(shape.op.directions, 2, shape.op.gates, shape.hidden).astype(np.float32)
    if shape.cell == RESET_LAST_CELL:
        parts = parts.copy()
        parts[:, 1, 2] = 0
    return _padded(parts[:, 0] + parts[:, 1], {2: 4 * shape.units4}).reshape(-1)


def state_matrix(
    shape: RecurrentShape,
    r: np.ndarray,
    b: np.ndarray | None,
    p: np.ndarray | None,
    projection: np.ndarray | None,
    projection_bias: np.ndarray | None,
    norm: np.ndarray | None,
) -> np.ndarray:
    """The weights of recurrent/steps, one direction after the other."""
    d, gates, units, wide = shape.op.directions, shape.op.gates, shape.hidden, 4 * shape.units4
    square = r.reshape(d, gates, units, shape.outputs).transpose(0, 3, 1, 2)
    parts = [_padded(square, {1: 4 * shape.h4, 3: wide})]
    if p is not None:
        parts.append(_padded(p.reshape(d, 3, units), {2: wide}))
    elif shape.cell == RESET_LAST_CELL:
        own = np.zeros((d, units), np.float32) if b is None else b.reshape(d, 6, units)[:, 5]
        parts.append(_padded(own, {1: wide}))
    if norm is not None:
        both = np.zeros((d, 8 * units)) if b is None else b
        parts.append(_padded(norm.reshape(d, 4, units), {2: wide}))
        parts.append(_padded(both.reshape(d, 2, 4, units).sum(axis=1), {2: wide}))
    if projection is not None:
        shift = np.zeros((d, shape.outputs)) if projection_bias is None else projection_bias
        parts.append(_padded(projection.swapaxes(1, 2), {1: wide, 2: 4 * shape.h4}))
        parts.append(_padded(shift, {1: 4 * shape.h4}))
    return np.concatenate([part.reshape(d, -1) for part in parts], axis=1)


def _padded(array: Any, sizes: dict[int, int]) -> np.ndarray:
    """The array in float32, padded with zeros so that axes have these sizes."""
    widths = [(0, sizes.get(axis, size) - size) for axis, size in enumerate(array.shape)]
    return np.pad(np.asarray(array, np.float32), widths)


def packed_size(shape: RecurrentShape) -> int:
    """Scalars of the weights that multiply the state."""
    return shape.op.directions * shape.state_weights


def gemm_size(shape: RecurrentShape) -> int:
    """Scalars of the result of the input's GEMM."""
    return math.prod((shape.steps, shape.batch, shape.columns))
