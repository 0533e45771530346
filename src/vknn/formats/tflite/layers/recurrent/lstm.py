"""LSTM operators on floats, with weights of floats or of 8 bits (hybrid).

In hybrid operators the data, and the state when it is multiplied, are rounded to 8 bits by row
(see ``quantized.hybrid``).

An error of TensorFlow Lite's kernel is reproduced: in an LSTM without activation the output gate
multiplies the new candidate, not the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.hybrid import rounded_rows, rows_rounding
from vknn.formats.tflite.layers.recurrent.sequences import (
    RECURRENT_ACTIVATIONS,
    ActivationSpec,
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
    check_cell,
    constant,
    matrix,
    sparse_state,
)
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat
from vknn.ops.recurrent.rnn import LSTM

_SIGMOID: ActivationSpec = ("Sigmoid", 0.0, 0.0)
#: Numbers of the op's gates i, o, f, g among inputs of a kind, whose order is i, f, g, o.
_GATES = (0, 3, 1, 2)


@dataclass(frozen=True)
class _LstmInputs:
    """Numbers of an LSTM cell's inputs.

    ``first``: input weights of the gate i; ``h``, ``c``: states; ``norm``: layer norm weights of
    the gate i; ``aux``: auxiliary weights of the gate i.
    """

    first: int
    h: int
    c: int
    norm: int | None = None
    aux: int | None = None


class _Lstm:
    """Weights of one LSTM cell; input ``first + k`` corresponds to input 1 + k of LSTM.

    ``coupled``: the cell has no input gate weights; its input gate is 1 - f (CIFG).
    """

    def __init__(self, c: Context, numbers: _LstmInputs) -> None:
        self.c, self.numbers = c, numbers
        self.coupled = c.optional(numbers.first) is None

    def gates(self, first: int) -> list[np.ndarray]:
        """Arrays of the gates i, o, f, g; those of a coupled input gate are those of f, negated."""
        where = [1 if gate == 0 and self.coupled else gate for gate in _GATES]
        arrays = [constant(self.c, first + gate) for gate in where]
        return [-arrays[0], *arrays[1:]] if self.coupled else arrays

    def matrix(self, first: int, columns: int | None = None) -> np.ndarray:
        """Weights [4 U, ...] of all gates; vectors are diagonals of matrices."""
        parts = [np.diag(a) if a.ndim == 1 else a for a in self.gates(first)]
        alike = len({a.shape for a in parts}) == 1 and parts[0].ndim == 2
        good = alike and columns in (None, parts[0].shape[-1])
        shapes = ", ".join(str(list(a.shape)) for a in parts)
        self.c.require(good, f"weights from input {first} on have the shapes {shapes}")
        return np.concatenate(parts)

    @property
    def rounding(self) -> str:
        """Rounding of the state that R multiplies; none where R is diagonal."""
        number = self.numbers.first + 7
        return "none" if self.c.value(number).type.rank == 1 else rows_rounding(self.c, number)

    def bias(self) -> np.ndarray:
        """Biases B [8 U] of W and R."""
        first = np.concatenate(self.gates(self.numbers.first + 11))
        return np.concatenate([first, np.zeros_like(first)])

    def norm(self) -> np.ndarray | None:
        """Layer norm weights [4 U], or None."""
        first = self.numbers.norm
        if first is None or self.c.optional(first + 1) is None:
            return None
        parts = self.gates(first)
        if self.coupled:
            parts[0] = -parts[0]  # the sums are those of -f already
        return np.concatenate(parts)

    def peepholes(self) -> np.ndarray | None:
        """Peephole weights P [3 U] of i, o, f, or None."""
        c, first = self.c, self.numbers.first + 8
        if c.optional(first + 2) is None:
            return None
        of_f, of_o = constant(c, first + 1), constant(c, first + 2)
        of_i = -of_f if self.coupled else constant(c, first)
        return np.concatenate([of_i, of_o, of_f])

    def projection(self) -> list[np.ndarray | None]:
        """Projection weights and bias, each or None."""
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
    """One LSTM cell over sequences."""
    diagonal = c.operator.code == "UNIDIRECTIONAL_SEQUENCE_LSTM"
    check_cell(c, numbers.first, numbers.norm, diagonal)
    cell, first = _Lstm(c, numbers), numbers.first
    w, r = cell.matrix(first, s.x.type.dims[2]), cell.matrix(first + 4)
    x = rounded_rows(c, s.x, first + 1)
    if aux is not None and numbers.aux is not None:
        w = np.concatenate([w, cell.matrix(numbers.aux, aux.type.dims[2])], axis=1)
        x = c.add(Concat(2), x, rounded_rows(c, aux, numbers.aux + 1))
    projection = cell.projection()
    act = activation_of(c)
    op = LSTM(
        direction=direction,
        layout=s.layout,
        state_rounding=cell.rounding,
        cell_clip=max(0.0, float(c.options["cell_clip"])),
        projection_clip=max(0.0, float(c.options["proj_clip"])) if projection[0] is not None else 0,
        projection_rounding="none" if projection[0] is None else rows_rounding(c, first + 15),
        output_of="candidate" if act is RECURRENT_ACTIVATIONS[0] else "cell",
    )
    op = with_activations(op, _SIGMOID, act, act)
    rest = [cell.peepholes(), *projection, cell.norm()]
    weights = [_held(c, a) for a in (w, r, cell.bias(), *rest)]
    states = [state(c, number, s) for number in (numbers.h, numbers.c)]
    if c.operator.code == "LSTM" and op.state_rounding != "none" and c.source(first + 3).sparse:
        op = replace(op, state_rounding="none")
        states[0] = sparse_state(c, states[0], s.x)
    y, last_h, last_c = c.add_many(op, x, *weights[:3], *states, *weights[3:])
    assign_state(c, numbers.h, last_h)
    assign_state(c, numbers.c, last_c)
    return result(c, y, s)


def _held(c: Context, array: np.ndarray | None) -> Value | None:
    return None if array is None else c.constant(np.ascontiguousarray(array[None]), "weights")


@operator("LSTM", inputs=(5, 24), outputs=(1, 4))
def lstm(c: Context) -> Value | Sequence[Value]:
    """One step of an LSTM."""
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
    """A forward and a backward cell over sequences."""
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
    return joined_outputs(c, forward, backward)


def _basic(c: Context) -> Sequence[Value]:
    """One step of the BASIC kernel: one matrix for x and h, gates in the order i, g, f, o.

    Outputs: h, the cell, the concatenation of x and h, and its product with the matrix.
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
