"""RNN and LSTM operators on floats, with weights of floats or of 8 bits (hybrid).

The states are variable tensors: read as initial states, and kept. In hybrid operators the data are
rounded to 8 bits, each row with steps of its own (see ``recurrent_weights``), and so is a state
each time that it is multiplied.

A backward cell that is to read ``aux_input`` instead of the input (no auxiliary weights) reads it
in TensorFlow Lite's BIDIRECTIONAL_SEQUENCE_RNN only where sequences are time-major. That operator's
hybrid form takes time-major sequences as many times as they have steps, and keeps the states from
one time to the next. LSTM without an activation lets the output gate multiply the new candidate,
which TensorFlow Lite has where it should have copied the cell. All of that is done here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.hybrid import rounded_rows, rows_rounding
from vknn.formats.tflite.layers.recurrent.weights import (
    check_cell,
    constant,
    matrix,
    sparse_state,
)
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.recurrent.rnn import LSTM, RNN, Recurrent

_Function = tuple[str, float, float]
_Op = TypeVar("_Op", bound=Recurrent)

#: ActivationFunctionType -> an activation of recurrent ops with its alpha and beta.
_FUNCTIONS: dict[int, _Function] = {
    0: ("Affine", 1.0, 0.0),
    1: ("Relu", 0.0, 0.0),
    2: ("Clip", -1.0, 1.0),
    3: ("Clip", 0.0, 6.0),
    4: ("Tanh", 0.0, 0.0),
    5: ("SignBit", 0.0, 0.0),
}
_SIGMOID: _Function = ("Sigmoid", 0.0, 0.0)
#: LSTM's inputs from input weights on, by gate in the order i, o, f, g of the op.
_GATES = (0, 3, 1, 2)


@dataclass(frozen=True)
class Sequences:
    """How the sequences of an operator lie: ``steps`` axis first (layout 0) or second (1)."""

    x: Value
    layout: int
    squeezed: bool = False

    @property
    def steps(self) -> int:
        return self.x.type.dims[self.layout]


def sequences(c: Context, time_major: bool) -> Sequences:
    """The first input as (steps, batch, size) or (batch, steps, size); a matrix is one step."""
    if c.x.type.rank == 2:
        return Sequences(c.reshape(c.x, (1, *c.x.type.dims)), 0, True)
    c.require(c.x.type.rank == 3, f"takes sequences of rank 3, not {c.x.type}")
    return Sequences(c.x, 0 if time_major else 1)


def function_of(c: Context) -> _Function:
    """The activation that the options name."""
    code = c.options["fused_activation_function"]
    return _FUNCTIONS[code] if code in _FUNCTIONS else c.refuse(f"the activation number {code}")


def with_functions(op: _Op, *used: _Function) -> _Op:
    """A recurrent op with these activations."""
    names, alphas, betas = zip(*used, strict=True)
    return replace(op, activations=names, activation_alpha=alphas, activation_beta=betas)


def state(c: Context, number: int, s: Sequences) -> Value:
    """A state of B entries, in whatever shape it lies, as the op takes it."""
    batch, layout = s.x.type.dims[1 - s.layout], s.layout
    value = rows_of(c, c.value(number), batch)
    units = value.type.dims[1]
    return c.reshape(value, (1, batch, units) if layout == 0 else (batch, 1, units))


def rows_of(c: Context, value: Value, batch: int) -> Value:
    """A state as a matrix of so many rows."""
    fits = batch > 0 and value.type.rank > 0 and value.type.size % batch == 0
    c.require(fits, f"has a state {value.type} for {batch} sequences")
    return c.reshape(value, (batch, value.type.size // batch))


def keep(c: Context, number: int, value: Value) -> None:
    """A state that an op gives, kept."""
    c.assign_variable(number, c.reshape(value, c.value(number).type.dims))


def result(c: Context, y: Value, s: Sequences) -> Value:
    """Y of an op as the operator gives it."""
    first, second, size = s.x.type.dims[0], s.x.type.dims[1], y.type.dims[-1]
    return c.reshape(y, (second, size) if s.squeezed else (first, second, size))


# --- RNN ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RnnInputs:
    """Numbers of an RNN cell's inputs."""

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
    """One cell over sequences; ``times``: how often it takes them, one after the other."""
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
    op = with_functions(op, function_of(c))
    weights = [c.constant(a[None], name) for a, name in ((w, "w"), (r, "r"), (both, "bias"))]
    y, last = c.add_many(op, x, *weights, state(c, numbers.state, s))
    if times > 1:
        first = 0 if direction == "reverse" else s.steps * (times - 1)
        y = c.add(Slice((first,), (first + s.steps,), (0,)), y)
    keep(c, numbers.state, last)
    return result(c, y, s)


@operator("RNN", inputs=5)
def rnn(c: Context) -> Value:
    """One step: h = f(W x + R h + b)."""
    c.require(c.x.type.rank == 2, f"takes a matrix, not {c.x.type}")
    return _rnn(c, sequences(c, True), _RnnInputs(1, 2, 3, 4))


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", inputs=5)
def unidirectional_sequence_rnn(c: Context) -> Value:
    """RNN over the steps of sequences."""
    return _rnn(c, sequences(c, c.options["time_major"]), _RnnInputs(1, 2, 3, 4))


@operator("BIDIRECTIONAL_SEQUENCE_RNN", inputs=12, outputs=(1, 2))
def bidirectional_sequence_rnn(c: Context) -> Sequence[Value]:
    """A cell from the first step on and one from the last."""
    s = sequences(c, c.options["time_major"])
    aux, crossed = c.optional(9), c.optional(10) is not None
    c.require(crossed == (c.optional(11) is not None), "has auxiliary weights of one cell")
    c.require(aux is not None or not crossed, "has auxiliary weights and no auxiliary input")
    if aux is not None and crossed:
        aux = _windows(c, s, aux)
    second, both = s, aux if crossed else None
    if aux is not None and not crossed and s.layout == 0:
        second = Sequences(aux, s.layout)
    times = s.steps if rows_rounding(c, 1) != "none" and s.layout == 0 else 1
    forward = _rnn(c, s, _RnnInputs(1, 2, 3, 4, 10), aux=both, times=times)
    numbers = _RnnInputs(5, 6, 7, 8, 11)
    backward = _rnn(c, second, numbers, aux=both, direction="reverse", times=times)
    return _both(c, forward, backward)


def _windows(c: Context, s: Sequences, aux: Value) -> Value:
    """``aux_input`` as the kernel reads it: it steps through it by the size of the input.

    Only sequences of floats that are not time-major have it right. Where that would lead beyond
    the end everything is where it should be.
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


def _both(c: Context, forward: Value, backward: Value) -> Sequence[Value]:
    if not c.options["merge_outputs"]:
        return forward, backward
    return (c.add(Concat(2), forward, backward),)


# --- LSTM -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LstmInputs:
    """Numbers of an LSTM cell's inputs: the first weights of the input, then what is elsewhere."""

    first: int
    h: int
    c: int
    norm: int | None = None
    aux: int | None = None


class _Lstm:
    """The weights of one LSTM cell; input ``first + k`` is what LSTM calls input 1 + k."""

    def __init__(self, c: Context, numbers: _LstmInputs) -> None:
        self.c, self.numbers = c, numbers
        self.coupled = c.optional(numbers.first) is None

    def gates(self, first: int) -> list[np.ndarray]:
        """Arrays of the gates i, o, f, g; an input gate that is 1 - f is that of -f."""
        where = [1 if gate == 0 and self.coupled else gate for gate in _GATES]
        arrays = [constant(self.c, first + gate) for gate in where]
        return [-arrays[0], *arrays[1:]] if self.coupled else arrays

    def matrix(self, first: int, columns: int | None = None) -> np.ndarray:
        """Weights [4 U, ...]; a vector is the diagonal of a matrix."""
        parts = [np.diag(a) if a.ndim == 1 else a for a in self.gates(first)]
        alike = len({a.shape for a in parts}) == 1 and parts[0].ndim == 2
        good = alike and columns in (None, parts[0].shape[-1])
        shapes = ", ".join(str(list(a.shape)) for a in parts)
        self.c.require(good, f"weights from input {first} on have the shapes {shapes}")
        return np.concatenate(parts)

    @property
    def rounding(self) -> str:
        """How what R multiplies is rounded; a diagonal's is not."""
        number = self.numbers.first + 7
        return "none" if self.c.value(number).type.rank == 1 else rows_rounding(self.c, number)

    def bias(self) -> np.ndarray:
        """B [8 U]."""
        first = np.concatenate(self.gates(self.numbers.first + 11))
        return np.concatenate([first, np.zeros_like(first)])

    def norm(self) -> np.ndarray | None:
        """What multiplies the normalized sums of the gates."""
        first = self.numbers.norm
        if first is None or self.c.optional(first + 1) is None:
            return None
        parts = self.gates(first)
        if self.coupled:
            parts[0] = -parts[0]  # the sums are those of -f already
        return np.concatenate(parts)

    def peepholes(self) -> np.ndarray | None:
        """P [3 U] of i, o, f."""
        c, first = self.c, self.numbers.first + 8
        if c.optional(first + 2) is None:
            return None
        of_f, of_o = constant(c, first + 1), constant(c, first + 2)
        of_i = -of_f if self.coupled else constant(c, first)
        return np.concatenate([of_i, of_o, of_f])

    def projection(self) -> list[np.ndarray | None]:
        """The projection and its bias."""
        numbers = (self.numbers.first + 15, self.numbers.first + 16)
        present = [self.c.optional(n) is not None for n in numbers]
        pair = [constant(self.c, n) if p else None for n, p in zip(numbers, present, strict=True)]
        return pair if present[0] else [None, None]


def _lstm(
    c: Context,
    s: Sequences,
    numbers: _LstmInputs,
    *,
    aux: Value | None = None,
    direction: str = "forward",
) -> Value:
    """One cell over sequences."""
    diagonal = c.operator.code == "UNIDIRECTIONAL_SEQUENCE_LSTM"
    check_cell(c, numbers.first, numbers.norm, diagonal)
    cell, first = _Lstm(c, numbers), numbers.first
    w, r = cell.matrix(first, s.x.type.dims[2]), cell.matrix(first + 4)
    x = rounded_rows(c, s.x, first + 1)
    if aux is not None and numbers.aux is not None:
        w = np.concatenate([w, cell.matrix(numbers.aux, aux.type.dims[2])], axis=1)
        x = c.add(Concat(2), x, rounded_rows(c, aux, numbers.aux + 1))
    projection = cell.projection()
    act = function_of(c)
    op = LSTM(
        direction=direction,
        layout=s.layout,
        state_rounding=cell.rounding,
        cell_clip=max(0.0, float(c.options["cell_clip"])),
        projection_clip=max(0.0, float(c.options["proj_clip"])) if projection[0] is not None else 0,
        projection_rounding="none" if projection[0] is None else rows_rounding(c, first + 15),
        output_of="candidate" if act is _FUNCTIONS[0] else "cell",
    )
    op = with_functions(op, _SIGMOID, act, act)
    rest = [cell.peepholes(), *projection, cell.norm()]
    weights = [_held(c, a) for a in (w, r, cell.bias(), *rest)]
    states = [state(c, number, s) for number in (numbers.h, numbers.c)]
    if c.operator.code == "LSTM" and op.state_rounding != "none" and c.source(first + 3).sparse:
        op = replace(op, state_rounding="none")
        states[0] = sparse_state(c, states[0], s.x)
    y, last_h, last_c = c.add_many(op, x, *weights[:3], *states, *weights[3:])
    keep(c, numbers.h, last_h)
    keep(c, numbers.c, last_c)
    return result(c, y, s)


def _held(c: Context, array: np.ndarray | None) -> Value | None:
    return None if array is None else c.constant(np.ascontiguousarray(array[None]), "weights")


@operator("LSTM", inputs=(5, 24), outputs=(1, 4))
def lstm(c: Context) -> Value | Sequence[Value]:
    """One step."""
    c.require(c.x.type.rank == 2, f"takes a matrix, not {c.x.type}")
    if c.options["kernel_type"] == 1:
        return _basic(c)
    c.require(len(c.inputs) in (20, 24), f"takes 20 or 24 inputs, not {len(c.inputs)}")
    return _lstm(c, sequences(c, True), _LstmInputs(1, 18, 19, norm=20))


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs=(20, 24))
def unidirectional_sequence_lstm(c: Context) -> Value:
    """LSTM over the steps of sequences."""
    c.require(len(c.inputs) in (20, 24), f"takes 20 or 24 inputs, not {len(c.inputs)}")
    s = sequences(c, c.options["time_major"])
    return _lstm(c, s, _LstmInputs(1, 18, 19, norm=20))


@operator("BIDIRECTIONAL_SEQUENCE_LSTM", inputs=48, outputs=(1, 2))
def bidirectional_sequence_lstm(c: Context) -> Sequence[Value]:
    """A cell from the first step on and one from the last."""
    s = sequences(c, c.options["time_major"])
    shapes = [[c.value(first + n).type.dims for n in (1, 7)] for first in (1, 18)]
    c.require(shapes[0] == shapes[1], "has cells of different sizes")
    aux, crossed = c.optional(39), c.optional(41) is not None
    weights = {c.optional(n) is not None for n in (41, 42, 43, 45, 46, 47)}
    c.require(len(weights) == 1, "has auxiliary weights of some gates only")
    c.require(aux is not None or not crossed, "has auxiliary weights and no auxiliary input")
    second, both = s, aux if crossed else None
    if aux is not None and not crossed:
        second = Sequences(aux, s.layout)
    forward = _lstm(c, s, _LstmInputs(1, 35, 36, aux=40), aux=both)
    numbers = _LstmInputs(18, 37, 38, aux=44)
    backward = _lstm(c, second, numbers, aux=both, direction="reverse")
    return _both(c, forward, backward)


def _basic(c: Context) -> Sequence[Value]:
    """The step of the BASIC kernel: one matrix for x and h, gates in the order i, g, f, o.

    Gives h, the cell, the matrix's input and its product.
    """
    size, units = c.x.type.dims[1], c.value(1).type.dims[1]
    weight, bias = matrix(c, 2, size + units), constant(c, 3)
    c.require(len(weight) == len(bias) == 4 * units, f"its weights have {len(weight)} rows")
    order = np.arange(4 * units).reshape(4, units)[[0, 3, 2, 1]].reshape(-1)
    op = LSTM()
    ordered = weight[order]
    both = np.concatenate([bias[order], np.zeros_like(bias)])
    weights = [_held(c, a) for a in (ordered[:, :size], ordered[:, size:], both)]
    s = sequences(c, True)
    _, h, cell = c.add_many(op, s.x, *weights, state(c, 1, s), state(c, 4, s))
    joined = c.add(Concat(1), c.x, c.value(1))
    product = c.add(MatMul(transpose_b=True), joined, c.constant(weight), c.constant(bias))
    results = [c.reshape(v, c.value(n).type.dims) for v, n in ((h, 1), (cell, 4))]
    for number, value in zip((1, 4), results, strict=True):
        if c.source(number).variable:
            c.assign_variable(number, value)
    return (*results, joined, product)
