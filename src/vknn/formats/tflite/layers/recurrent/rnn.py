"""RNN operators on floats, with weights of floats or of 8 bits (hybrid).

In hybrid operators the data, and the state when it is multiplied, are rounded to 8 bits by row
(see ``quantized.hybrid``).

Errors of TensorFlow Lite's BIDIRECTIONAL_SEQUENCE_RNN are reproduced:

- Without auxiliary weights the backward cell should read ``aux_input``, but does so for time-major
  sequences only.
- The hybrid form runs over time-major sequences as many times as they have steps, and keeps the
  states from one run to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.hybrid import rounded_rows, rows_rounding
from vknn.formats.tflite.layers.recurrent.sequences import (
    Sequences,
    activation_of,
    assign_state,
    joined_outputs,
    result,
    sequences,
    state,
    with_activations,
)
from vknn.formats.tflite.layers.recurrent.weights import (
    constant,
    matrix,
)
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.recurrent.rnn import RNN


@dataclass(frozen=True)
class _RnnInputs:
    """Numbers of an RNN cell's inputs; ``aux``: of the auxiliary weights."""

    w: int
    r: int
    bias: int
    state: int
    aux: int = -1


def _rnn(
    c: Context,
    s: Sequences,
    numbers: _RnnInputs,
    *,
    aux: Value | None = None,
    direction: str = "forward",
    times: int = 1,
) -> Value:
    """One RNN cell over sequences; ``times``: runs over them, each from the states of the last."""
    w, r = matrix(c, numbers.w, s.x.type.dims[2]), matrix(c, numbers.r)
    x = rounded_rows(c, s.x, numbers.w)
    if aux is not None:
        w = np.concatenate([w, matrix(c, numbers.aux, aux.type.dims[2])], axis=1)
        x = c.add(Concat(2), x, rounded_rows(c, aux, numbers.aux))
    bias = constant(c, numbers.bias)
    both = np.concatenate([bias, np.zeros_like(bias)])
    if times > 1:
        x = c.add(Tile((times, 1, 1)), x)
    op = RNN(
        direction=direction,
        layout=s.layout,
        state_rounding=rows_rounding(c, numbers.r),
    )
    op = with_activations(op, activation_of(c))
    weights = [c.constant(a[None], name) for a, name in ((w, "w"), (r, "r"), (both, "bias"))]
    y, last = c.add_many(op, x, *weights, state(c, numbers.state, s))
    if times > 1:
        first = 0 if direction == "reverse" else s.steps * (times - 1)
        y = c.add(Slice((first,), (first + s.steps,), (0,)), y)
    assign_state(c, numbers.state, last)
    return result(c, y, s)


@operator("RNN", inputs=5)
def rnn(c: Context) -> Value:
    """One step of an RNN: h = f(W x + R h + b)."""
    c.require(c.x.type.rank == 2, f"takes a matrix, not {c.x.type}")
    return _rnn(c, sequences(c, True), _RnnInputs(1, 2, 3, 4))


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", inputs=5)
def unidirectional_sequence_rnn(c: Context) -> Value:
    """RNN over the steps of sequences."""
    return _rnn(c, sequences(c, c.options["time_major"]), _RnnInputs(1, 2, 3, 4))


@operator("BIDIRECTIONAL_SEQUENCE_RNN", inputs=12, outputs=(1, 2))
def bidirectional_sequence_rnn(c: Context) -> Sequence[Value]:
    """A forward and a backward cell over sequences."""
    s = sequences(c, c.options["time_major"])
    aux, crossed = c.optional(9), c.optional(10) is not None
    c.require(crossed == (c.optional(11) is not None), "has auxiliary weights of one cell")
    c.require(aux is not None or not crossed, "has auxiliary weights and no auxiliary input")
    if aux is not None and crossed:
        aux = _misread_aux(c, s, aux)
    second, both = s, aux if crossed else None
    if aux is not None and not crossed and s.layout == 0:
        second = Sequences(aux, s.layout)
    times = s.steps if rows_rounding(c, 1) != "none" and s.layout == 0 else 1
    forward = _rnn(c, s, _RnnInputs(1, 2, 3, 4, 10), aux=both, times=times)
    numbers = _RnnInputs(5, 6, 7, 8, 11)
    backward = _rnn(c, second, numbers, aux=both, direction="reverse", times=times)
    return joined_outputs(c, forward, backward)


def _misread_aux(c: Context, s: Sequences, aux: Value) -> Value:
    """``aux_input`` as the kernel reads it, which advances by the size of the input, not of aux.

    Batch-major sequences of floats are read correctly, and so is an ``aux_input`` that is not wider
    than the input.
    """
    (first, second, size), wanted = s.x.type.dims, aux.type.rank == 3
    c.require(wanted and aux.type.dims[:2] == (first, second), f"has an auxiliary input {aux.type}")
    length = aux.type.dims[2]
    right = s.layout == 1 and rows_rounding(c, 1) == "none"
    if right or length <= size or aux.type.size == 0:
        return aux
    inner = length if s.layout == 0 else size
    places = np.arange(first)[:, None] * second * size + np.arange(second) * inner
    places = places[..., None] + np.arange(length)
    flat = c.reshape(aux, (aux.type.size,))
    return c.add(Gather(), flat, c.constant(places.astype(np.int32), "places"))
