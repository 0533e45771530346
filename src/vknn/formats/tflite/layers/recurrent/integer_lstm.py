"""LSTM operators on integers: TensorFlow Lite's kernels 8x8_16 and BASIC.

8x8_16 has int8 data and an int16 cell, whose scale is a power of two; five intermediate tensors
give the quantization of the sums of the gates (with layer norm) and of the hidden value. BASIC has
uint8 data and an int16 cell with 4 integer bits.

The kernel 8x8_16 indexes peephole weights by the length of h, not of the cell: with a projection to
fewer numbers some units have none, and with time-major steps of several batch entries units have
those of others. That is reproduced here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import (
    all_values,
    integer_multiplier,
    output_quant,
    scale_of,
    table_of_int16,
    zero_of,
)
from vknn.formats.tflite.layers.recurrent.lstm_8x8_8 import (
    INTERMEDIATES,
    assign_int8_state,
    int8_state,
    lstm_8x8_8,
)
from vknn.formats.tflite.layers.recurrent.sequences import (
    Sequences,
    assign_state,
    result,
    rows_of,
    sequences,
)
from vknn.formats.tflite.layers.recurrent.weights import check_cell
from vknn.formats.tflite.records import Quant
from vknn.formats.tflite.registry import quantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.matmul import MatMulInteger
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized import gemmlowp as ff
from vknn.ops.quantized.arithmetic import QuantizedBinary, Rescale, TableLookup
from vknn.ops.recurrent.integer_lstm import IntegerLSTM
from vknn.ops.reduction import ReduceSum

#: Numbers of the op's gates f, g, o, i among the inputs of a kind.
_GATES = (1, 2, 3, 0)
#: Scale of a gate's sum without layer norm.
_SUMS = np.float32(2.0**-12)
_F32 = np.float32
#: Largest right shift: 17 bits and a sign, shifted left by it, fit into 32 bits.
_MOST_RIGHT = 13


class _Lstm:
    """Weights and multipliers of an operator of the kernel 8x8_16."""

    def __init__(self, c: Context, s: Sequences) -> None:
        self.c, self.s = c, s
        self.coupled = c.optional(1) is None
        self.gates = _GATES[:3] if self.coupled else _GATES
        self.normed = c.optional(21) is not None
        self.projected = c.optional(16) is not None
        self.quants = self._intermediates()
        self.state = c.quant(18)

    def _intermediates(self) -> list[Quant]:
        """Quantization of the sums of the gates i, f, g, o and of the hidden value."""
        c = self.c
        numbers = c.operator.intermediates
        c.require(len(numbers) == 5, f"names {len(numbers)} intermediate tensors, not 5")
        found = [c.graph.tensors[n].quant for n in numbers]
        wanted = found if self.normed else found[4:]
        c.require(all(q is not None for q in wanted), "has intermediate tensors without a scale")
        unused = Quant(np.array([_SUMS]), np.array([0]))
        return [unused if q is None else q for q in found]

    def scale(self, number: int) -> np.float32:
        """Scale of input ``number``."""
        return scale_of(self.c.quant(number))

    def sum_scale(self, gate: int) -> np.float32:
        """Scale of the sum of a gate."""
        return scale_of(self.quants[gate]) if self.normed else _SUMS

    def arrays(self, first: int, dtype: str, rank: int) -> list[np.ndarray]:
        """Constants of the gates, input ``first`` being that of i. Raises Malformed."""
        found = []
        for gate in self.gates:
            array = self.c.data(first + gate)
            good = array.dtype == dtype and array.ndim == rank
            what = f"input {first + gate} is {array.dtype} of rank {array.ndim}"
            self.c.require(good, f"{what}, not {dtype} of rank {rank}")
            found.append(array)
        same = all(a.shape == found[0].shape for a in found)
        self.c.require(same, f"inputs from {first} on have shapes that differ")
        return found

    def biases(self, weights: list[np.ndarray], zero: int, own: list[np.ndarray] | None) -> Value:
        """Bias of products with data of this zero point, ``own`` biases included."""
        parts = [-zero * w.sum(axis=1, dtype=np.int64) for w in weights]
        if own is not None:
            parts = [a + b for a, b in zip(parts, own, strict=True)]
        return self.c.constant(fp.wrapped(np.concatenate(parts)).astype(np.int32), "bias")

    def peepholes(self, units: int, outputs: int) -> Value | None:
        """Peephole weights [B, 3 U] of f, o, i as the kernel indexes them, or None."""
        c = self.c
        if c.optional(11) is None:
            return None
        batch = self.s.x.type.dims[1 - self.s.layout]
        rows = 1 if self.s.layout else batch  # batch entries that the kernel takes at a time
        place = np.arange(rows * units)
        parts = []
        for number in (10, 11) if self.coupled else (10, 11, 9):
            w = c.data(number)
            c.require(w.dtype == np.int16 and w.shape == (units,), f"input {number} is {w.shape}")
            c.require(outputs <= units, "projects to more numbers than there are units")
            taken = np.where(place < rows * outputs, w[place % outputs], 0)
            parts.append(np.broadcast_to(taken.reshape(rows, units), (batch, units)))
        if self.coupled:
            parts.append(np.zeros_like(parts[0]))
        return c.constant(np.concatenate(parts, axis=1).astype(np.int16), "peepholes")

    def peephole_multipliers(self, cell: int) -> tuple[tuple[int, int], ...]:
        """Multipliers of the peepholes of f, o, i for a cell with the scale 2^cell."""
        if self.c.optional(11) is None:
            return ()
        found = []
        for number, gate in ((10, 1), (11, 3), (9, 0)):
            if number == 9 and self.coupled:
                found.append((0, 0))
                continue
            real = 2.0**cell * float(self.scale(number)) / float(self.sum_scale(gate))
            found.append(integer_multiplier(_F32(real)))
        return tuple(found)


def _integer_lstm(c: Context, s: Sequences) -> Value:
    check_cell(c, 1, 20)
    m = _Lstm(c, s)
    w, r = m.arrays(1, "int8", 2), m.arrays(5, "int8", 2)
    own = m.arrays(12, "int32", 1)
    units, outputs = w[0].shape[0], r[0].shape[1]
    cell = _cell_exponent(c, m.scale(19))
    hidden, batch = m.quants[4], s.x.type.dims[1 - s.layout]
    x, state = scale_of(c.quant(0)), scale_of(m.state)
    divisors = [scale_of(hidden), state, *(m.sum_scale(g) for g in m.gates)]
    c.require(
        all(d > 0 for d in divisors),
        "has a scale of 0 for its hidden value, its state or a gate's sum",
    )
    op = IntegerLSTM(
        tuple(integer_multiplier(m.scale(1 + g) * x / m.sum_scale(g)) for g in m.gates),
        tuple(integer_multiplier(m.scale(5 + g) * state / m.sum_scale(g)) for g in m.gates),
        integer_multiplier(_F32(2.0**-15 / float(scale_of(hidden)) * 2.0**-15)),
        m.peephole_multipliers(cell),
        tuple(integer_multiplier(m.scale(20 + g)) for g in m.gates) if m.normed else (),
        tuple(max(1, int(_F32(10000) * m.scale(20 + g))) for g in m.gates) if m.normed else (),
        integer_multiplier(m.scale(16) * scale_of(hidden) / state) if m.projected else (0, 0),
        15 + cell,
        -zero_of(hidden) if m.projected else zero_of(hidden),
        zero_of(m.state),
        _clip_limit(c, "cell_clip", m.scale(19), 32767),
        _clip_limit(c, "proj_clip", scale_of(output_quant(c)), 127) if m.projected else 0,
        s.layout,
    )
    inputs: list[Value | None] = [s.x, *(c.constant(np.concatenate(a), "weights") for a in (w, r))]
    inputs += [m.biases(w, zero_of(c.quant(0)), None if m.normed else own)]
    inputs += [m.biases(r, zero_of(m.state), None)]
    inputs += [int8_state(c, batch), rows_of(c, c.value(19), batch)]
    inputs += [m.peepholes(units, outputs), None, None]
    if m.normed:
        norm = np.concatenate(m.arrays(20, "int16", 1))
        inputs[8:] = [c.constant(norm), c.constant(np.concatenate(own))]
    if m.projected:
        inputs += _projection(c, zero_of(hidden))
    y, h, last = c.add_many(op, *inputs)
    assign_int8_state(c, h)
    assign_state(c, 19, last)
    return result(c, y, s)


def _projection(c: Context, zero: int) -> list[Value]:
    weights = c.data(16)
    c.require(weights.dtype == np.int8 and weights.ndim == 2, f"projects by {weights.dtype}")
    bias = zero * weights.sum(axis=1, dtype=np.int64)
    if c.optional(17) is not None:
        bias = bias + c.data(17)
    return [c.constant(weights), c.constant(fp.wrapped(bias).astype(np.int32))]


def _cell_exponent(c: Context, scale: np.float32) -> int:
    """Exponent of the cell's scale, a power of two. Raises Malformed."""
    power = int(np.rint(np.log2(scale))) if scale > 0 else 0
    near = abs(np.log2(scale) - power) < 1e-3 if scale > 0 else False
    c.require(bool(near) and -15 <= power <= -9, f"has a cell with the scale {scale}")
    return power


def _clip_limit(c: Context, name: str, scale: np.float32, most: int) -> int:
    clip = _F32(c.options[name])
    return int(min(clip / scale, _F32(most))) if clip > 0 else 0


@quantized("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_sequence_lstm(c: Context) -> Value:
    """LSTM over the steps of sequences (kernel 8x8_16)."""
    c.require(len(c.inputs) in (20, 24), f"takes 20 or 24 inputs, not {len(c.inputs)}")
    return _integer_lstm(c, sequences(c, c.options["time_major"]))


@quantized("LSTM")
def lstm(c: Context) -> Value | Sequence[Value]:
    """One step of an LSTM: kernel BASIC, 8x8_8 or 8x8_16."""
    c.require(c.x.type.rank == 2, f"takes a matrix, not {c.x.type}")
    if c.options["kernel_type"] == 1:
        return _basic(c)
    c.require(len(c.inputs) in (20, 24), f"takes 20 or 24 inputs, not {len(c.inputs)}")
    if len(c.operator.intermediates) == INTERMEDIATES:
        return lstm_8x8_8(c)
    return _integer_lstm(c, sequences(c, True))


def _basic(c: Context) -> Sequence[Value]:
    """Kernel BASIC: gates in the order i, g, f, o, their sums with 12 fractional bits."""
    bias_scale, weights, bias = scale_of(c.quant(3)), c.data(2), c.data(3)
    kinds = [c.value(n).type.dtype for n in range(5)]
    u8, wanted = DType.UINT8, [DType.UINT8] * 3 + [DType.INT32, DType.INT16]
    c.require(kinds == wanted, f"takes {', '.join(k.value for k in wanted)}, not these: {kinds}")
    c.require(
        _cell_exponent(c, scale_of(output_quant(c, 1))) == -11, "has a cell without 4 whole bits"
    )
    units = c.value(1).type.dims[1]
    joined = c.add(Concat(1), c.x, c.value(1))
    shape = (4 * units, joined.type.dims[1])
    c.require(weights.shape == shape and bias.shape == shape[:1], f"has weights {weights.shape}")
    sums = _basic_sums(c, joined, weights, bias)
    gates = _basic_rescaled(c, sums, 4096 * float(bias_scale))
    raw = all_values(DType.INT16)
    functions = (ff.logistic(raw), ff.tanh(raw, 3), ff.logistic(raw), ff.logistic(raw))
    i, g, f, o = (
        table_of_int16(c, table, c.add(Slice((n * units,), ((n + 1) * units,), (1,)), gates))
        for n, table in enumerate(functions)
    )
    high = QuantizedBinary("doubling_high", DType.INT16, low=-32768, high=32767)
    add = QuantizedBinary("shifted_add", DType.INT16, shifts=(-4, 0, 0), low=-32768, high=32767)
    cell = c.add(add, c.add(high, i, g), c.add(high, c.value(4), f))
    # The table of tanh has 3 integer bits, the cell 4.
    squashed = table_of_int16(c, ff.tanh(np.clip(raw << 1, -32768, 32767), 3), cell)
    rounded = np.clip(fp.rounding_divide_by_pot(raw, 8), -128, 127) + 128
    h = c.add(high, o, squashed)
    h = c.add(TableLookup(-32768), h, c.constant(rounded.astype(u8.numpy), "table"))
    for number, value in ((1, h), (4, cell)):
        if c.source(number).variable:
            c.assign_variable(number, value)
    return h, cell, joined, gates


def _basic_rescaled(c: Context, sums: Value, real: float) -> Value:
    """Sums of the gates as int16; the second of two roundings rounds halves up."""
    q, shift = integer_multiplier(real)
    right = max(-shift, 0)
    if right == 0:
        return c.add(Rescale(q, shift, 0, 0, 0, -32768, 32767, DType.INT16), sums)
    if right > _MOST_RIGHT:
        c.refuse(f"a bias whose scale is as small as {real / 4096}")
    # Rescale rounds halves away from zero, which is up for numbers that are made non-negative.
    far = 32770 << right
    first = Rescale(q, 0, 0, 0, 0, -far, far, DType.INT32)
    second = Rescale(1 << 30, -right, -far, 1, -32770, -32768, 32767, DType.INT16)
    return c.add(second, c.add(first, sums))


def _basic_sums(c: Context, x: Value, weights: np.ndarray, bias: np.ndarray) -> Value:
    """Sums (x - 128) (weights - zero) + bias, from products of int8."""
    centred = np.arange(-128, 128, dtype=np.int8)
    x = c.add(TableLookup(), x, c.constant(centred, "table"))
    small = (weights.astype(np.int16) - 128).astype(np.int8)
    sums = c.add(MatMulInteger(transpose_b=True), x, c.constant(small))
    sums = c.add(ew.Add(), sums, c.constant(bias))
    rest = 128 - zero_of(c.quant(2))
    if rest == 0:
        return sums
    total = c.add(ReduceSum((1,), True), c.add(ew.Cast(DType.INT32), x))
    return c.add(ew.Add(), sums, c.add(ew.Mul(), total, c.scalar(rest, DType.INT32)))
