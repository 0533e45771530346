"""LSTMSequence, GRUSequence, RNNSequence: cells over a whole sequence, as one layer.

X is [N, T, D], or [T, N, D] where ``axis`` is 0; states are [N, S], or [2, N, S] for both
directions. Outputs: Y, then the last states. An input after the states holds the lengths of the
sequences: states stay unchanged at later steps, and Y is 0 there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.recurrent.cells import Cell, read_cell, walk
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Greater, Where
from vknn.ops.movement.shape import Concat, Slice

_DIRECTIONS = {
    "forward": "forward", "backward": "reverse", "reverse": "reverse",
    "bidirectional": "bidirectional",
}  # fmt: skip


@layer("LSTMSequence", inputs=(1, 4), outputs=(1, 3))
def lstm_sequence(c: Context) -> Sequence[Value]:
    return _sequence(c, "lstm")


@layer("GRUSequence", inputs=(1, 3), outputs=(1, 2))
def gru_sequence(c: Context) -> Sequence[Value]:
    return _sequence(c, "gru")


@layer("RNNSequence", inputs=(1, 3), outputs=(1, 2))
def rnn_sequence(c: Context) -> Sequence[Value]:
    return _sequence(c, "rnn")


def _sequence(c: Context, kind: str) -> list[Value]:
    direction = _DIRECTIONS[c.text("direction", "forward", choices=tuple(_DIRECTIONS))]
    cell = read_cell(c, kind, direction)
    axis = c.int("axis", 1)
    c.require(axis in (0, 1), f"axis is {axis}, not 0 or 1")
    x = c.float_input()
    fits = x.type.rank == 3 and x.type.dims[2] == cell.inputs
    c.require(fits, f"X is {x.type}, its weights are for [N, T, {cell.inputs}]")
    x = c.transpose(x, (0, 1, 2) if axis == 0 else (1, 0, 2))
    states = [_state(c, cell, i + 1, x.type.dims[1]) for i in range(cell.states)]
    lengths = c.optional(cell.states + 1)
    if lengths is None:
        y, *last = walk(c, cell, x, states)
    else:
        y, *last = _walk_to_lengths(c, cell, x, states, c.int_input(cell.states + 1))
    return [_as_stated(c, y, axis), *(_state_as_stated(c, s, i) for i, s in enumerate(last, 1))]


def _state(c: Context, cell: Cell, number: int, rows: int) -> Value | None:
    """An initial state as [directions, N, S], or None for zeros."""
    if c.optional(number) is None:
        return None
    state, directions = c.float_input(number), cell.op.directions
    wanted = (directions, rows, cell.hidden)
    if directions == 1 and state.type.dims == wanted[1:]:
        return c.reshape(state, wanted)
    if state.type.dims == (rows, directions, cell.hidden) != wanted:
        return c.transpose(state, (1, 0, 2))
    c.require(state.type.dims == wanted, f"a state is {state.type}, not of shape {list(wanted)}")
    return state


def _walk_to_lengths(
    c: Context, cell: Cell, x: Value, states: Sequence[Value | None], lengths: Value
) -> list[Value]:
    """The op for sequences of lengths[n] steps each, as one cell per step."""
    steps, rows = x.type.dims[:2]
    c.require(lengths.type.size == rows, f"has {lengths.type.size} lengths for {rows} sequences")
    lengths = c.reshape(lengths, (rows, 1))
    own = [_direction(c, cell, d) for d in range(cell.op.directions)]
    zeros = np.zeros((cell.op.directions, rows, cell.hidden), np.float32)
    first = [c.constant(zeros) if s is None else s for s in states]
    first += [c.constant(zeros)] * (cell.states - len(first))
    parts: list[list[Value]] = []
    for d, one in enumerate(own):
        held = [_slice(c, s, 0, d) for s in first]
        outputs: dict[int, Value] = {}
        for t in range(steps)[:: -1 if cell.op.backwards(d) else 1]:
            runs = c.add(Greater(), lengths, c.scalar(t, DType.INT32))
            _, *new = walk(c, one, _slice(c, x, 0, t), held)
            held = [c.add(Where(), runs, n, h) for n, h in zip(new, held, strict=True)]
            zero = c.constant(zeros[:1])
            outputs[t] = c.add(Where(), runs, new[0], zero)
        whole = _joined(c, [outputs[t] for t in range(steps)], 0)
        parts.append([c.reshape(whole, (steps, 1, rows, cell.hidden)), *held])
    y = _joined(c, [p[0] for p in parts], 1)
    return [y, *(_joined(c, [p[1 + i] for p in parts], 0) for i in range(cell.states))]


def _direction(c: Context, cell: Cell, d: int) -> Cell:
    """One direction of a cell, as a forward cell."""
    return replace(
        cell,
        op=replace(cell.op, direction="forward"),
        w=_slice(c, cell.w, 0, d),
        r=_slice(c, cell.r, 0, d),
        b=None if cell.b is None else _slice(c, cell.b, 0, d),
    )


def _slice(c: Context, x: Value, axis: int, place: int) -> Value:
    if x.type.dims[axis] == 1:
        return x
    return c.add(Slice((place,), (place + 1,), (axis,)), x)


def _joined(c: Context, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else c.add(Concat(axis), *parts)


def _as_stated(c: Context, y: Value, axis: int) -> Value:
    """Y [T, directions, N, S] in the layout of the file."""
    steps, directions, rows, hidden = y.type.dims
    sizes = (rows, steps) if axis == 1 else (steps, rows)
    stated = c.port().dims if c.is_as_declared else ()
    n, t = (2, 0) if axis == 1 else (0, 2)
    for dims, perm in (
        ((directions, *sizes, hidden), (1, n, t, 3)),
        ((rows, directions, steps, hidden), (2, 1, 0, 3)),
        ((steps, directions, rows, hidden), (0, 1, 2, 3)),
    ):
        if dims == stated:
            return c.transpose(y, perm)
    both = c.transpose(y, (n, t, 1, 3))
    return c.reshape(both, (*both.type.dims[:2], directions * hidden))


def _state_as_stated(c: Context, state: Value, number: int) -> Value:
    directions, rows, hidden = state.type.dims
    if number < len(c.layer.outputs):
        stated = c.port(number).dims
        if len(stated) == 3 and c.is_as_declared and stated == (rows, directions, hidden):
            return c.transpose(state, (1, 0, 2))
        if len(stated) == 3:
            return state
    return c.reshape(state, (rows, hidden)) if directions == 1 else state
