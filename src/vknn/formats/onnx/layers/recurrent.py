"""LSTM, GRU and RNN: all directions, each with its activations, and sequences of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Greater, Where
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN, Recurrent

#: Activations by their names in small letters, and which take alpha and beta from the lists.
_NAMES = {name.lower(): name for name in ACTIVATIONS}
_TAKE_ALPHA = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
_TAKE_BETA = ("Affine", "ScaledTanh", "HardSigmoid")
_DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass(frozen=True)
class _Cell:
    """One direction: its op, and its part of the weights and states (with a first axis of 1)."""

    op: Recurrent
    w: Value
    r: Value
    b: Value | None
    states: tuple[Value | None, ...]
    p: Value | None

    def inputs(self, x: Value, states: Sequence[Value | None]) -> list[Value | None]:
        """The op's inputs for a sequence and states."""
        given: list[Value | None] = [x, self.w, self.r, self.b, *states]
        return [*given, self.p] if isinstance(self.op, LSTM) else given


@operator("LSTM", 1, 7, 14, 22, inputs=(3, 8), outputs=(0, 3))
def lstm(c: Context) -> list[Value]:
    """Gates i, o, f, c"""
    return recurrent(c, LSTM(input_forget=c.flag("input_forget")), 2)


@operator("GRU", 1, 3, 7, 14, 22, inputs=(3, 6), outputs=(0, 2))
def gru(c: Context) -> list[Value]:
    """Gates z, r, h"""
    before = c.version >= 3 and c.flag("linear_before_reset")
    return recurrent(c, GRU(linear_before_reset=before), 1)


@operator("RNN", 1, 7, 14, 22, inputs=(3, 6), outputs=(0, 2))
def rnn(c: Context) -> list[Value]:
    """One gate"""
    return recurrent(c, RNN(), 1)


def recurrent(c: Context, op: Recurrent, states: int) -> list[Value]:
    """The results of a node with ``states`` states: Y, then the last states."""
    direction = c.text("direction", "forward")
    direction = {"foward": "forward"}.get(direction, direction)  # a slip of GRU's first version
    c.require(direction in _DIRECTIONS, f"has the direction {direction!r}")
    batch_first = c.version >= 14 and c.int("layout", 0) == 1
    op = replace(op, direction=direction, clip=c.float("clip", 0.0))
    functions = _functions(c, op)
    x = c.x if not batch_first else c.transpose(c.x, (1, 0, 2))
    c.require(x.type.rank == 3, f"takes sequences [steps, batch, size], not {c.x.type}")
    for number, rank in ((1, 3), (2, 3), (3, 2), (5, 3), (6, 3), (7, 2)):
        found = c.optional(number)
        good = found is None or found.type.rank == rank
        c.require(good, f"input {number} is {found and found.type}, its rank must be {rank}")
    given = [c.optional(5 + i) for i in range(states)]
    if batch_first:
        given = [None if v is None else c.transpose(v, (1, 0, 2)) for v in given]
    w, r, b = c.value(1), c.value(2), c.optional(3)
    hidden = c.int("hidden_size", r.type.dims[2])
    c.require(hidden == r.type.dims[2], f"has the hidden_size {hidden} and weights {r.type}")
    p = c.optional(7) if states == 2 else None
    lengths = _lengths(c, x)
    whole = _Cell(_with(op, functions[0]), w, r, b, tuple(given), p)
    if lengths is None and len(set(functions)) == 1:
        results = list(c.add_many(whole.op, *whole.inputs(x, given)))
    else:
        cells = [_direction(c, whole, d, functions[d]) for d in range(op.directions)]
        results = _by_direction(c, cells, x, lengths)
    if batch_first:
        results = [c.transpose(v, (2, 0, 1, 3) if v.type.rank == 4 else (1, 0, 2)) for v in results]
    return results


def _functions(c: Context, op: Recurrent) -> list[tuple[tuple[str, float, float], ...]]:
    """Activations with alpha and beta, for each direction."""
    wanted = len(op.default_activations)
    names = c.texts("activations", op.default_activations * op.directions)
    c.require(len(names) == wanted * op.directions, f"has the activations {list(names)}")
    alphas = iter(c.float_list("activation_alpha", ()))
    betas = iter(c.float_list("activation_beta", ()))
    found: list[tuple[str, float, float]] = []
    for name in names:
        known = _NAMES.get(name.lower())
        if known is None:
            c.refuse(f"the activation {name!r}")
        _, alpha, beta = ACTIVATIONS[known]
        alpha = next(alphas, alpha) if known in _TAKE_ALPHA else alpha
        beta = next(betas, beta) if known in _TAKE_BETA else beta
        found.append((known, alpha, beta))
    return [tuple(found[d * wanted : (d + 1) * wanted]) for d in range(op.directions)]


def _with(op: Recurrent, functions: Sequence[tuple[str, float, float]]) -> Any:
    names, alphas, betas = zip(*functions, strict=True)
    return replace(op, activations=names, activation_alpha=alphas, activation_beta=betas)


def _lengths(c: Context, x: Value) -> Value | None:
    """Numbers of steps of the batch's sequences; None where all are as long as x."""
    found = c.optional(4)
    if found is None:
        return None
    steps, batch = x.type.dims[:2]
    c.require(found.type.dims == (batch,), f"has the sequence_lens {found.type} for {x.type}")
    if found.constant is not None and (found.constant == steps).all():
        return None
    return c.indices(4, steps + 1, from_end=False)


def _direction(
    c: Context, whole: _Cell, d: int, functions: Sequence[tuple[str, float, float]]
) -> _Cell:
    """One direction of a cell."""
    direction = "reverse" if whole.op.backwards(d) else "forward"
    op = replace(_with(whole.op, functions), direction=direction)
    parts = (whole.w, whole.r, whole.b, *whole.states, whole.p)
    w, r, b, *states, p = (None if v is None else _part(c, v, 0, d) for v in parts)
    assert w is not None and r is not None
    return _Cell(op, w, r, b, tuple(states), p)


def _by_direction(
    c: Context, cells: Sequence[_Cell], x: Value, lengths: Value | None
) -> list[Value]:
    """Results of directions that are walked one by one: Y, then the last states."""
    found = []
    for cell in cells:
        if lengths is None:
            found.append(list(c.add_many(cell.op, *cell.inputs(x, cell.states))))
        else:
            found.append(_to_lengths(c, cell, x, lengths))
    y = _joined(c, [results[0] for results in found], 1)
    last = range(1, len(found[0]))
    return [y, *(_joined(c, [results[i] for results in found], 0) for i in last)]


def _to_lengths(c: Context, cell: _Cell, x: Value, lengths: Value) -> list[Value]:
    """A direction step by step: behind the end of a sequence its state stays, and Y is 0."""
    steps, batch = x.type.dims[:2]
    backwards = cell.op.direction == "reverse"
    one = replace(cell, op=replace(cell.op, direction="forward"))
    zeros = np.zeros((1, batch, cell.r.type.dims[2]), x.type.dtype.numpy)
    states = [c.constant(zeros, "zeros") if s is None else s for s in cell.states]
    ends = c.reshape(lengths, (batch, 1))
    outputs: dict[int, Value] = {}
    for t in range(steps)[:: -1 if backwards else 1]:
        runs = c.add(Greater(), ends, c.scalar(t, DType.INT32))
        y, *new = c.add_many(one.op, *one.inputs(_part(c, x, 0, t), states))
        states = [c.add(Where(), runs, n, old) for n, old in zip(new, states, strict=True)]
        outputs[t] = c.add(Where(), runs, y, c.scalar(0, x.type.dtype))
    # As in onnxruntime: a sequence of no steps leaves zeros, not the states that it begins with.
    some = c.add(Greater(), ends, c.scalar(0, DType.INT32))
    states = [c.add(Where(), some, state, c.scalar(0, x.type.dtype)) for state in states]
    return [_joined(c, [outputs[t] for t in range(steps)], 0), *states]


def _part(c: Context, x: Value, axis: int, place: int) -> Value:
    return x if x.type.dims[axis] == 1 else c.add(Slice((place,), (place + 1,), (axis,)), x)


def _joined(c: Context, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else c.add(Concat(axis), *parts)
