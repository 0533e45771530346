"""IntegerLSTM: 8-bit weights and states and a 16-bit cell, as TensorFlow Lite computes it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized import gemmlowp as ff

#: Places of the gates in IntegerLSTM's weights; the last may be left out.
FORGET, CANDIDATE, OUTPUT, INPUT = range(4)
#: Bits of the gates' sums before the point, with the sign's 12 behind it.
SUM_BITS = 3

Multipliers = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class IntegerLSTMSizes:
    """Sizes of an IntegerLSTM. ``units``: of a gate; ``outputs``: length of h."""

    steps: int
    batch: int
    inputs: int
    units: int
    outputs: int
    gates: int


@attributes
class IntegerLSTM(Op):
    """c' = f c + i g, h' = o tanh(c') in fixed point, with gates f, g, o, i in that order.

    Inputs x int8 [T, B, I] ([B, T, I] in layout 1), W int8 [G U, I], R int8 [G U, O], the biases of
    both int32 [G U], h int8 [B, O], c int16 [B, U], P int16 [B, 3 U] (f, o, i; optional), norm
    int16 and its bias int32 [G U] (optional, both), projection int8 [O, U] and its bias int32 [O]
    (optional, both). Where G is 3, i = 1 - f. Zero points are part of the biases. Outputs Y int8
    [T, B, O] ([B, T, O]), the last h and the last c.

    A multiplier is a fixed-point number (q, shift). The sum of a gate has 16 bits, 12 of them
    fractional, and saturates at each addition: (W x + bias) ``input_multipliers`` + (R h + bias)
    ``state_multipliers`` + P c ``peephole_multipliers`` (c' for o). With ``norm`` it is brought to
    mean 0 and variance 1 over the units (``variance_guards`` where the variance is below 1),
    multiplied by norm, moved by its bias, times ``norm_multipliers``. g is a tanh, the others are
    logistic functions. c has ``cell_bits`` before the point. o tanh(c') by ``hidden_multiplier``,
    moved by ``hidden_zero``, is int8; times the projection, if there is one, and
    ``projection_multiplier``, moved by ``output_zero``, h'. ``cell_clip`` and ``projection_clip``
    bound c' and the projected h'; 0: no bound. Formulas: TensorFlow Lite's lstm_eval.cc (8x8_16).
    """

    input_multipliers: Multipliers
    state_multipliers: Multipliers
    hidden_multiplier: tuple[int, int]
    peephole_multipliers: Multipliers = ()
    norm_multipliers: Multipliers = ()
    variance_guards: tuple[int, ...] = ()
    projection_multiplier: tuple[int, int] = (0, 0)
    cell_bits: int = 4
    hidden_zero: int = 0
    output_zero: int = 0
    cell_clip: int = 0
    projection_clip: int = 0
    layout: int = 0

    def sizes(self, x: Any, w: Any, r: Any) -> IntegerLSTMSizes:
        """Sizes from arrays or types whose shapes have been checked."""
        steps, batch = x.shape[:2] if self.layout == 0 else x.shape[1::-1]
        gates = len(self.input_multipliers)
        return IntegerLSTMSizes(steps, batch, x.shape[2], w.shape[0] // gates, r.shape[1], gates)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        given = arguments(self, inputs, 7, optional=5)
        x, w, r = given[:3]
        for name, type_, rank in (("x", x, 3), ("W", w, 2), ("R", r, 2)):
            good = type_.rank == rank and type_.is_static
            require(good, f"IntegerLSTM: {name} is {type_}, not of rank {rank}")
        self._check()
        s = self.sizes(x, w, r)
        require(s.units > 0 and s.outputs > 0, f"IntegerLSTM: no units in {w}")
        rows, hidden = s.gates * s.units, s.units
        wide = DType.INT32
        wanted = [
            ("x", DType.INT8, x.shape), ("W", DType.INT8, (rows, s.inputs)),
            ("R", DType.INT8, (rows, s.outputs)), ("a bias", wide, (rows,)),
            ("a bias", wide, (rows,)), ("h", DType.INT8, (s.batch, s.outputs)),
            ("c", DType.INT16, (s.batch, hidden)), ("P", DType.INT16, (s.batch, 3 * hidden)),
            ("norm", DType.INT16, (rows,)), ("a bias", wide, (rows,)),
            ("projection", DType.INT8, (s.outputs, hidden)), ("a bias", wide, (s.outputs,)),
        ]  # fmt: skip
        for (name, dtype, shape), found in zip(wanted, given, strict=True):
            suits = found is None or (found.dtype is dtype and found.shape == shape)
            require(suits, f"IntegerLSTM: {name} is {found}, not {dtype.value} {shape}")
        p, norm, norm_bias, projection, shift = given[7:]
        whole = (norm is None) == (norm_bias is None) and (projection is None) == (shift is None)
        require(whole, "IntegerLSTM: a norm or a projection without its bias")
        square = projection is not None or s.outputs == hidden
        require(square, f"IntegerLSTM: R {r} does not suit W {w} without a projection")
        require(p is None or len(self.peephole_multipliers) == 3, "IntegerLSTM: no multiplier of P")
        normed = len(self.norm_multipliers) == len(self.variance_guards) == s.gates
        require(norm is None or normed, "IntegerLSTM: no multipliers of norm")
        y = x.with_shape((*x.shape[:2], s.outputs))
        return (
            y,
            TensorType((s.batch, s.outputs), DType.INT8),
            TensorType((s.batch, hidden), DType.INT16),
        )

    def _check(self) -> None:
        gates = len(self.input_multipliers)
        good = gates in (3, 4) and len(self.state_multipliers) == gates
        require(good, f"IntegerLSTM: {gates} multipliers for its gates")
        require(0 <= self.cell_bits <= 6, f"IntegerLSTM: {self.cell_bits} bits of the cell")
        require(self.layout in (0, 1), f"IntegerLSTM: no layout {self.layout}")
        for bound, most in ((self.cell_clip, 32767), (self.projection_clip, 127)):
            require(0 <= bound <= most, f"IntegerLSTM: a bound of {bound}")

    # --- reference --------------------------------------------------------------------------------

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        given = arguments(self, inputs, 7, optional=5)
        x, w, r = given[:3]
        s = self.sizes(x, w, r)
        # Whatever belongs to entries of the batch, and the matrices, in parts.
        wide: list[Any] = [a if a is None or i in (0, 1, 2, 5, 6, 7, 10) else a.astype(np.int64)
                           for i, a in enumerate(given)]  # fmt: skip
        steps = x if self.layout == 0 else x.swapaxes(0, 1)
        tables = gate_tables(self.cell_bits)
        y = np.zeros((s.steps, s.batch, s.outputs), np.int8)
        last_h, last_c = given[5].astype(np.int8), given[6].astype(np.int16)
        hidden = len(w) // s.gates
        for part in blocks(s.batch, 8 * (x.shape[2] + 8 * s.gates * hidden + 4 * s.outputs)):
            h, c = last_h[part].astype(np.int64), last_c[part].astype(np.int64)
            wide[7] = None if given[7] is None else given[7][part].astype(np.int64)
            for t in range(s.steps):
                run_limits.check()
                h, c = self._step(s, wide, tables, steps[t, part].astype(np.int64), h, c)
                y[t, part] = h
            last_h[part], last_c[part] = h, c
        y = y if self.layout == 0 else y.swapaxes(0, 1)
        return np.ascontiguousarray(y), last_h, last_c

    def _step(
        self, s: IntegerLSTMSizes, given: Any, tables: np.ndarray, x: Any, h: Any, c: Any
    ) -> Any:
        _, w, r, shift_w, shift_r = given[:5]
        first, second = _product(x, w) + shift_w, _product(h, r) + shift_r
        sums = [
            _sat16(
                _sat16(fp.multiply(fp.wrapped(a), *self.input_multipliers[gate]))
                + fp.multiply(fp.wrapped(b), *self.state_multipliers[gate])
            )
            for gate, (a, b) in enumerate(
                zip(np.split(first, s.gates, 1), np.split(second, s.gates, 1), strict=True)
            )
        ]
        f = tables[0, self._gate(given, FORGET, sums, c) + 32768]
        g = tables[1, self._gate(given, CANDIDATE, sums, None) + 32768]
        if s.gates == 3:
            i = ff.ONE - f
        else:
            i = tables[0, self._gate(given, INPUT, sums, c) + 32768]
        kept = fp.rounding_divide_by_pot(f * c, 15)
        new = fp.rounding_divide_by_pot(i * g, 15 + self.cell_bits)
        c = _sat16(kept + new)
        if self.cell_clip:
            c = np.clip(c, -self.cell_clip, self.cell_clip)
        o = tables[0, self._gate(given, OUTPUT, sums, c) + 32768]
        out = fp.multiply(o * tables[2, c + 32768], *self.hidden_multiplier) + self.hidden_zero
        out = np.clip(out, -128, 127)
        return self._project(given[10], given[11], out), c

    def _gate(self, given: Any, gate: int, sums: Any, c: Any) -> Any:
        """A gate's sum with its peephole, normalised where there is a norm."""
        value, p = sums[gate], given[7]
        if p is not None and c is not None:
            place = (FORGET, OUTPUT, INPUT).index(gate)
            weights = np.split(p, 3, axis=1)[place]
            value = _sat16(fp.multiply(weights * c, *self.peephole_multipliers[place]) + value)
        if given[8] is None:
            return value
        norm, bias = (np.split(a, len(self.norm_multipliers))[gate] for a in given[8:10])
        multiplier = self.norm_multipliers[gate]
        return normalized(value, norm, bias, multiplier, self.variance_guards[gate])

    def _project(self, projection: Any, shift: Any, out: Any) -> Any:
        if projection is None:
            return out
        total = fp.wrapped(_product(out, projection) + shift)
        h = fp.multiply(total, *self.projection_multiplier) + self.output_zero
        h = np.clip(h, -128, 127)
        bound = self.projection_clip
        return np.clip(h, -bound, bound) if bound else h


def normalized(
    sums: np.ndarray, norm: np.ndarray, bias: np.ndarray, multiplier: tuple[int, int], guard: int
) -> np.ndarray:
    """Rows of 16-bit sums, normalized with 10 more fractional bits, as int64."""
    count = sums.shape[-1]
    mean = _quotient(sums.sum(axis=-1, keepdims=True) * 1024, count)
    squares = (sums * sums).sum(axis=-1, keepdims=True)
    variance = _quotient(squares * ((1 << 20) // count) - mean * mean, 1 << 20)
    variance = np.where(variance < 1, guard, variance)
    scaled = fp.multiply(1024 * sums - mean, *fp.inverse_root(variance))
    moved = fp.wrapped(fp.wrapped(scaled * norm) + bias)
    rounded = _quotient(moved + np.where(moved > 0, 512, -512), 1024)
    return _sat16(fp.multiply(rounded, multiplier[0], multiplier[1] + 12))


def _product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """x times a transposed matrix, whose rows are widened to int64 a block at a time."""
    y = np.empty((len(x), len(w)), np.int64)
    for rows in blocks(len(w), 8 * w.shape[1]):
        y[:, rows] = x @ w[rows].T.astype(np.int64)
    return y


@functools.cache
def gate_tables(cell_bits: int) -> np.ndarray:
    """Tables of logistic and tanh of a gate's sum and tanh of the cell: int64 [3, 65536]."""
    raw = np.arange(-32768, 32768)
    found = (ff.logistic(raw, SUM_BITS), ff.tanh(raw, SUM_BITS), ff.tanh(raw, cell_bits))
    return np.stack(found)


def _quotient(a: np.ndarray, b: int) -> np.ndarray:
    """a / b towards 0."""
    return np.asarray(np.sign(a) * (np.abs(a) // b))


def _sat16(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -32768, 32767)
