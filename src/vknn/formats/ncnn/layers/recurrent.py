"""RNN, GRU and LSTM.

ncnn differs: of a blob with three or four axes RNN, GRU and LSTM read only the first matrix.
ncnn differs: RNN, GRU and LSTM take a vector as a sequence of one step.
ncnn differs: an initial state of RNN, GRU or LSTM keeps its shape, (size) or (1, size), in the
output.
ncnn differs: RNN, GRU and LSTM with int8 weights quantize x and h step by step, not by a scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np

from vknn.formats.ncnn.context import Context, innermost, rank, shape
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.recurrent.rnn import DIRECTIONS, GRU, LSTM, RNN, Recurrent

#: ncnn's places of the gates in the order of the ops (ONNX's): i o f g of I F O G, z r n of R U N.
_LSTM_ORDER, _GRU_ORDER, _RNN_ORDER = (0, 2, 1, 3), (1, 0, 2), (0,)


@attributes
class RnnParams(Params):
    """Parameters of RNN, which GRU and LSTM have too."""

    gates: ClassVar[int] = 1

    num_output: int = param(0)
    weight_data_size: int = param(1)
    direction: int = param(2)
    int8_scale_term: int = param(8)

    @property
    def units(self) -> int:
        """Number of units of a gate."""
        return self.num_output

    @property
    def directions(self) -> int:
        """Number of directions: 2 for bidirectional layers."""
        return 2 if self.direction == 2 else 1

    @property
    def rows(self) -> int:
        """Number of rows of weight_xc and weight_hc."""
        return self.directions * self.gates * self.units

    @property
    def size(self) -> int:
        """Length of a step of the input."""
        return self.weight_data_size // self.rows

    def check(self) -> None:
        require(self.num_output > 0, f"num_output (parameter 0) is {self.num_output}")
        require(self.units > 0, f"hidden_size (parameter 3) is {self.units}")
        require(self.direction in (0, 1, 2), f"unknown direction {self.direction} (parameter 2)")
        count = self.weight_data_size
        require(
            count > 0 and count % self.rows == 0,
            f"weight_data_size (parameter 1) is {count}, not a multiple of {self.rows} rows",
        )


@attributes
class GruParams(RnnParams):
    """Parameters of GRU."""

    gates = 3


@attributes
class LstmParams(RnnParams):
    """Parameters of LSTM."""

    gates = 4

    hidden_size: int = param(3, like="num_output")

    @property
    def units(self) -> int:
        return self.hidden_size


Q = TypeVar("Q", bound=RnnParams)


def _weights(bias_rows: int, p: RnnParams) -> list[WeightSpec]:
    """Weights in the order of the file, each with all directions."""
    rows = p.rows
    int8 = bool(p.int8_scale_term)
    specs = [
        WeightSpec("weight_xc", (rows, p.size), tagged=True, int8=int8),
        WeightSpec("bias_c", (p.directions * bias_rows * p.units,), tagged=True),
        WeightSpec("weight_hc", (rows, p.num_output), tagged=True, int8=int8),
    ]
    if p.units != p.num_output:
        projection = (p.directions * p.num_output, p.units)
        specs.append(WeightSpec("weight_hr", projection, tagged=True))
    if int8:
        specs += [WeightSpec(name, (rows,)) for name in ("weight_xc_scale", "weight_hc_scale")]
    return specs


@layer("RNN", params=RnnParams, weights=partial(_weights, 1), inputs=(1, 2), outputs=(1, 2))
def rnn(c: Context[RnnParams]) -> Sequence[Value]:
    """RNN h = tanh(W x + R h + b)."""
    p = c.params
    bias = _float(c, "bias_c").reshape(p.directions, p.units)
    both = np.concatenate([bias, np.zeros_like(bias)], axis=1)
    op = RNN(direction=DIRECTIONS[p.direction], layout=1, state_rounding=_rounding(p))
    return _convert(c, op, _RNN_ORDER, both)


@layer("GRU", params=GruParams, weights=partial(_weights, 4), inputs=(1, 2), outputs=(1, 2))
def gru(c: Context[GruParams]) -> Sequence[Value]:
    """GRU; the file has gates R, U, N, and biases of R, U, W in N, R in N."""
    p = c.params
    reset, update, of_w, of_r = np.moveaxis(
        _float(c, "bias_c").reshape(p.directions, 4, p.units), 1, 0
    )
    none = np.zeros_like(reset)
    both = np.concatenate([update, reset, of_w, none, none, of_r], axis=1)
    op = GRU(
        direction=DIRECTIONS[p.direction],
        layout=1,
        state_rounding=_rounding(p),
        linear_before_reset=True,
    )
    return _convert(c, op, _GRU_ORDER, both)


@layer("LSTM", params=LstmParams, weights=partial(_weights, 4), inputs=(1, 3), outputs=(1, 3))
def lstm(c: Context[LstmParams]) -> Sequence[Value]:
    """LSTM; the file has gates I, F, O, G, and a projection where hidden_size is not num_output."""
    p = c.params
    bias = _ordered(_float(c, "bias_c"), _LSTM_ORDER, p).reshape(p.directions, -1)
    both = np.concatenate([bias, np.zeros_like(bias)], axis=1)
    op = LSTM(direction=DIRECTIONS[p.direction], layout=1, state_rounding=_rounding(p))
    return _convert(c, op, _LSTM_ORDER, both, states=2)


def _rounding(p: RnnParams) -> str:
    return "symmetric" if p.int8_scale_term else "none"


def _convert(
    c: Context[Q], op: Recurrent, order: tuple[int, ...], bias: np.ndarray, states: int = 1
) -> Sequence[Value]:
    """Adds a recurrent op. Results: (T, directions * num_output), and the last states."""
    p = c.params
    c.require(
        len(c.record.tops) in (1, 1 + states),
        "gives its sequence alone or with all its states (hidden, and cell of an LSTM)",
    )
    x = _sequence(c, p.size)
    if p.int8_scale_term:
        x = c.add(DynamicRound(), x)
    weights = [
        c.constant(_ordered(_matrix(c, name), order, p), name)
        for name in ("weight_xc", "weight_hc")
    ]
    given = _states(c, [p.num_output, p.units][:states])
    inputs: list[Value | None] = [x, *weights, c.constant(bias, "bias_c"), *given]
    if p.units != p.num_output:
        projection = _float(c, "weight_hr").reshape(p.directions, p.num_output, p.units)
        inputs += [None, c.constant(projection, "weight_hr")]
    y, *last = c.add_many(op, *inputs, parts=("y", "h", "c")[: 1 + states])
    steps = x.type.dims[1]
    results = [c.reshape(y, (1, steps, p.directions * p.num_output))]
    if len(c.record.tops) > 1:
        for index, state in enumerate(last):
            like = c.inputs[1 + index] if given[index] is not None else state
            results.append(c.reshape(state, like.type.dims))
    return results


def _sequence(c: Context[Q], size: int) -> Value:
    """The input as (1, T, size): the first matrix of a blob; a vector is one step."""
    x = c.x
    if rank(x) == 1:
        x = c.reshape(x, (1, 1, *shape(x)))
    if rank(x) > 2:
        # ncnn quantizes all steps of such a blob by the scale of the first, and dequantizes them
        # by their own.
        suits = isinstance(c.params, LstmParams) or not c.params.int8_scale_term
        message = "takes a blob of two axes (steps, size) where its weights are int8"
        c.require(suits or shape(x)[-2] == 1, f"{message}, not {list(shape(x))}")
        x = innermost(c, x, 2)
    c.require(
        shape(x)[1] == size,
        f"takes steps of {size} values (weight_data_size, parameter 1), not {shape(x)[1]}",
    )
    return x


def _states(c: Context[Q], widths: Sequence[int]) -> list[Value | None]:
    """Initial states as (1, directions, width), or None where the layer lacks any of them."""
    if len(c.inputs) != 1 + len(widths):
        return [None] * len(widths)
    states: list[Value | None] = []
    for value, width in zip(c.inputs[1:], widths, strict=True):
        wanted = (c.params.directions, width)
        lone = shape(value) == (width,) and c.params.directions == 1
        c.require(
            shape(value) == wanted or lone,
            f"an initial state has the shape {list(shape(value))}, not {list(wanted)}",
        )
        states.append(c.reshape(value, (1, *wanted)))
    return states


def _float(c: Context[P], name: str) -> np.ndarray:
    array = c.weight(name)
    c.require(array.dtype != np.int8, f"{name} is stored as int8, which only weights may be")
    return array


def _matrix(c: Context[Q], name: str) -> np.ndarray:
    """weight_xc or weight_hc as float32; int8 is dequantized by a scale for each row."""
    array = c.weight(name)
    if not c.params.int8_scale_term:
        c.require(array.dtype != np.int8, f"{name} is stored as int8 without int8_scale_term")
        return array
    c.require(array.dtype == np.int8, f"{name} is stored as floats with int8_scale_term")
    with np.errstate(all="ignore"):
        scales = np.float32(1) / c.weight(f"{name}_scale").reshape(-1, 1)
        return array * scales


def _ordered(array: np.ndarray, order: tuple[int, ...], p: RnnParams) -> np.ndarray:
    """Rows of gates in the order of the ops: [directions, gates * units, ...]."""
    parts = array.reshape(p.directions, len(order), p.units, -1)[:, list(order)]
    last = array.shape[1:]
    return np.ascontiguousarray(parts.reshape(p.directions, len(order) * p.units, *last))
