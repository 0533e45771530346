"""Recurrent cells: LSTM, GRU and RNN.

``weights``: (gates, S, D + S), for each gate and unit the factors of the input X, then of the state
H; ``biases``: (gates, S). Gates are F I C O for LSTM and z r n for GRU, whose biases have a fourth
row, of n's state, with linear_before_reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN, Recurrent

#: Activations that OpenVINO has no name for.
_OURS = ("Clip", "SignBit")
_BY_NAME = {name.lower(): name for name in ACTIVATIONS if name not in _OURS}
_OPS: dict[str, type[Recurrent]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}
#: The indices of the file's gates in the order of ONNX, which the ops have.
_ORDER = {"lstm": (1, 3, 0, 2), "gru": (0, 1, 2), "rnn": (0,)}
_DEFAULTS = {
    "lstm": ("sigmoid", "tanh", "tanh"),
    "gru": ("sigmoid", "tanh"),
    "rnn": ("tanh",),
}


@dataclass(frozen=True)
class Cell:
    """A recurrent op, and its W, R and B."""

    kind: str
    op: Recurrent
    w: Value
    r: Value
    b: Value | None
    inputs: int
    hidden: int

    @property
    def states(self) -> int:
        """The number of states: 2 for LSTM (H, C), otherwise 1."""
        return 2 if self.kind == "lstm" else 1


def cell_kind(type_: str) -> str | None:
    """ "lstm", "gru" or "rnn" for a cell's type name, else None."""
    kind = type_.lower().removesuffix("cell")
    return kind if kind in _OPS and type_.lower().endswith("cell") else None


def read_cell(c: Context, kind: str, direction: str = "forward") -> Cell:
    """The cell of a layer, for sequences [T, N, D] in ``direction``."""
    gates, directions = len(_ORDER[kind]), 2 if direction == "bidirectional" else 1
    reset = kind == "gru" and c.bool("linear_before_reset", False)
    weights = c.blob("weights", dtype=np.float32)
    hidden = c.int("hidden_size", None)
    if hidden is None:
        hidden = c.layer.outputs[0].dims[-1] if c.layer.outputs[0].dims else 0
    c.require(0 < hidden < 1 << 20, f"hidden_size is {hidden}")
    width, rest = divmod(weights.size, directions * gates * hidden)
    c.require(
        rest == 0 and width > hidden,
        f"has {weights.size} weights, which do not suit {gates} gates of {hidden} units",
    )
    by_gate = weights.reshape(directions, gates, hidden, width)[:, _ORDER[kind]]
    rows = by_gate.reshape(directions, gates * hidden, width)
    inputs = width - hidden
    return Cell(
        kind,
        _op(c, kind, direction, reset),
        c.constant(np.ascontiguousarray(rows[:, :, :inputs]), "W"),
        c.constant(np.ascontiguousarray(rows[:, :, inputs:]), "R"),
        _bias(c, kind, directions, hidden, reset),
        inputs,
        hidden,
    )


def _op(c: Context, kind: str, direction: str, reset: bool) -> Recurrent:
    names = c.texts("activations", ()) or _DEFAULTS[kind]
    wanted = len(_DEFAULTS[kind])
    c.require(len(names) == wanted, f"has {len(names)} activations, not {wanted}")
    for name in names:
        c.require(name.lower() in _BY_NAME, f"has the activation {name[:40]!r}")
    functions = tuple(_BY_NAME[name.lower()] for name in names)
    alphas, betas = c.floats("activations_alpha", ()), c.floats("activations_beta", ())
    alpha = tuple(_given(alphas, i, ACTIVATIONS[f][1]) for i, f in enumerate(functions))
    beta = tuple(_given(betas, i, ACTIVATIONS[f][2]) for i, f in enumerate(functions))
    clip = c.float("clip", 0.0)
    c.require(clip >= 0, f"clip {clip} is negative")
    clip = 0.0 if clip == float("inf") else clip
    common = (direction, functions, alpha, beta, clip)
    return GRU(*common, linear_before_reset=reset) if kind == "gru" else _OPS[kind](*common)


def _given(values: Sequence[float], place: int, default: float) -> float:
    return values[place] if place < len(values) else default


def _bias(c: Context, kind: str, directions: int, hidden: int, reset: bool) -> Value | None:
    """B [directions, 2 * gates * hidden]: of the input's product, then of the state's."""
    if not c.has_blob("biases"):
        return None
    gates = len(_ORDER[kind])
    given = c.blob("biases", dtype=np.float32)
    rows, rest = divmod(given.size, directions * hidden)
    fits = rest == 0 and (rows == gates or (reset and rows == gates + 1))
    c.require(fits, f"has {given.size} biases, which do not suit {gates} gates of {hidden} units")
    given = given.reshape(directions, rows, hidden)
    both = np.zeros((directions, 2 * gates, hidden), np.float32)
    both[:, :gates] = given[:, _ORDER[kind]]
    if rows > gates:
        both[:, 2 * gates - 1] = given[:, gates]
    return c.constant(both.reshape(directions, -1), "B")


def walk(c: Context, cell: Cell, x: Value, states: Sequence[Value | None]) -> tuple[Value, ...]:
    """The op over x [T, N, D] from states [directions, N, S]: Y [T, directions, N, S], states."""
    return c.add_many(cell.op, x, cell.w, cell.r, cell.b, *states)


def step(c: Context, cell: Cell, x: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    """The next states (N, S) for x (N, D) and states (N, S)."""
    c.require(x.type.rank == 2, f"X is {x.type}, not of rank 2")
    rows, width = x.type.dims
    c.require(width == cell.inputs, f"X is {x.type}, its weights are for {cell.inputs} numbers")
    for state in states:
        fits = state.type.dims == (rows, cell.hidden)
        c.require(fits, f"a state is {state.type}, not of shape {[rows, cell.hidden]}")
    held = [c.reshape(s, (1, rows, cell.hidden)) for s in states]
    results = walk(c, cell, c.reshape(x, (1, rows, width)), held)
    return tuple(c.reshape(v, (rows, cell.hidden)) for v in results[1:])


@layer("LSTMCell", inputs=3, outputs=(1, 2))
def lstm_cell(c: Context) -> Sequence[Value]:
    return step(c, read_cell(c, "lstm"), c.float_input(0), [c.float_input(1), c.float_input(2)])


@layer("GRUCell", inputs=2)
def gru_cell(c: Context) -> Sequence[Value]:
    return step(c, read_cell(c, "gru"), c.float_input(0), [c.float_input(1)])


@layer("RNNCell", inputs=2)
def rnn_cell(c: Context) -> Sequence[Value]:
    return step(c, read_cell(c, "rnn"), c.float_input(0), [c.float_input(1)])
