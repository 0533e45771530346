"""LSTM on int8 with int8 products: TensorFlow Lite's kernel 8x8_8, with 12 intermediate tensors.

Each of the gates i, f, g and o has three intermediate tensors, for Wx + Rh, Wx and Rh. Wx and Rh
are rescaled to int8, added as int16 and normalized in float32. The cell has 15 fractional bits,
whatever its scale is.

The kernel always takes i = 1 - f, and no peepholes. For Rh of the output gate it uses the zero
point of Wx of g and, from beyond the end of its list, a shift of f as multiplier; both are
reproduced here. Without layer norm or projection it reads outside its memory; vknn refuses such
operators.
"""

from __future__ import annotations

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
from vknn.formats.tflite.layers.recurrent.sequences import assign_state, rows_of
from vknn.formats.tflite.records import Quant
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized.arithmetic import QuantizedBinary, Rescale
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.ops.quantized.rows import QuantizedLayerNormalization

#: Number of intermediate tensors by which the kernel is chosen.
INTERMEDIATES = 12
#: Numbers of the gates among LSTM's inputs; i is 0.
_FORGET, _CANDIDATE, _OUTPUT = 1, 2, 3
#: Gate -> intermediate tensors whose zero points the kernel uses for Wx and Rh.
_ZEROS = {_FORGET: (4, 5), _CANDIDATE: (7, 8), _OUTPUT: (10, 7)}
_F32 = np.float32
#: Fixed-point multipliers of 1 (with shift 0) and of 1/2 (with shift 0).
_ONE, _HALF = (1 << 31) - 1, 1 << 30

Multiplier = tuple[int, int]


def lstm_8x8_8(c: Context) -> Value:
    """One step of an LSTM on a matrix [batch, size]."""
    for number in (16, 17, 21, 22, 23):
        present = c.optional(number) is not None
        c.require(present, f"has 12 intermediate tensors and no input {number}")
    c.require(c.value(19).type.dtype is DType.INT16, f"has a cell {c.value(19).type}")
    given = [c.graph.tensors[n].quant for n in c.operator.intermediates]
    quants = [q for q in given if q is not None]
    c.require(len(quants) == INTERMEDIATES, "has intermediate tensors without a scale")
    batch = c.x.type.dims[0]
    h, held = int8_state(c, batch), rows_of(c, c.value(19), batch)
    f, g, o = (_sum(c, quants, gate, h) for gate in (_FORGET, _CANDIDATE, _OUTPUT))
    logistic = _logistic()
    i, g = table_of_int16(c, 32767 - logistic, f), table_of_int16(c, _tanh(-12), g)
    cell = _new_cell(c, held, table_of_int16(c, logistic, f), i, g)
    out = _product(c, table_of_int16(c, logistic, o), table_of_int16(c, _tanh(-15), cell))
    y = _projected(c, out)
    assign_int8_state(c, y)
    assign_state(c, 19, cell)
    return y


def int8_state(c: Context, batch: int) -> Value:
    """State h [batch, outputs] as int8; the tensor may be declared int16, but holds int8."""
    h = rows_of(c, c.value(18), batch)
    return c.add(ew.Cast(DType.INT8), h) if h.type.dtype is DType.INT16 else h


def assign_int8_state(c: Context, h: Value) -> None:
    """Assignment of h to its variable tensor, in the type of that."""
    held = c.value(18).type.dtype
    assign_state(c, 18, c.add(ew.Cast(held), h) if held is DType.INT16 else h)


def _int8(number: int) -> int:
    """``number`` wrapped around to int8."""
    return (number + 128) % 256 - 128


def _logistic() -> np.ndarray:
    """Table of the logistic function, 12 fractional bits in, 15 out; truncated."""
    real = all_values(DType.INT16).astype(_F32) * _F32(2**-12)
    y = _F32(1) / (_F32(1) + np.exp(-real.astype(np.float64)).astype(_F32))
    return np.clip(np.trunc(y * _F32(32768)), -32768, 32767)


def _tanh(power: int) -> np.ndarray:
    """Table of tanh for inputs in units of 2^power, with 15 fractional bits; truncated."""
    y = np.tanh(all_values(DType.INT16) * 2.0**power).astype(_F32)
    return np.clip(np.trunc(y * _F32(32768)), -32768, 32767)


def _sum(c: Context, quants: list[Quant], gate: int, h: Value) -> Value:
    """Normalized sum of a gate, with 12 fractional bits."""
    zeros = [_int8(zero_of(quants[n])) for n in _ZEROS[gate]]
    scales = [scale_of(q) for q in quants[3 * gate : 3 * gate + 3]]
    first = _int8_product(c, c.x, 0, 1 + gate, scales[1], zeros[0])
    second = _int8_product(c, h, 18, 5 + gate, scales[2], zeros[1])
    pairs = [integer_multiplier(s / scales[0]) for s in scales[1:]]
    if gate == _OUTPUT:
        of_f = integer_multiplier(scale_of(quants[5]) / scale_of(quants[3]))
        pairs[1] = (of_f[1], pairs[1][1])
    (q0, s0), (q1, s1) = pairs
    add = QuantizedBinary(
        "add",
        DType.INT16,
        (zeros[0], zeros[1]),
        (q0, q1, _HALF),
        (s0, s1, 1),
        low=-32768,
        high=32767,
    )
    q, shift = integer_multiplier(scale_of(c.quant(20 + gate)))
    norm = QuantizedLayerNormalization(float(_F32(q * 2.0 ** (shift - 31))))
    return c.add(norm, c.add(add, first, second), c.value(20 + gate), c.value(12 + gate))


def _int8_product(
    c: Context, x: Value, data: int, weights: int, scale: np.float32, zero: int
) -> Value:
    """Product of ``x`` (quantized as input ``data``) with weights of a gate, as int8."""
    given, w = c.quant(data), c.data(weights)
    good = w.dtype == np.int8 and w.ndim == 2 and w.shape[1] == x.type.dims[-1]
    c.require(good, f"input {weights} is {w.dtype} {list(w.shape)}")
    q, shift = integer_multiplier(scale_of(c.quant(weights)) * scale_of(given) / scale)
    op = QuantizedGemm(zero_in=zero_of(given), zero_out=zero, transpose_b=True)
    return c.add(op, x, c.constant(w, "weights"), None, *_vectors(c, (q, shift)))


def _vectors(c: Context, pair: Multiplier) -> tuple[Value, Value]:
    q, shift = (c.constant(np.array([part], np.int32), "multiplier") for part in pair)
    return q, shift


def _product(c: Context, a: Value, b: Value) -> Value:
    """Product a * b / 2^15, halves away from zero."""
    op = QuantizedBinary(
        "mul", DType.INT16, multipliers=(0, 0, _ONE), shifts=(0, 0, -15), low=-32768, high=32767
    )
    return c.add(op, a, b)


def _new_cell(c: Context, held: Value, f: Value, i: Value, g: Value) -> Value:
    kept, new = _product(c, held, f), _product(c, i, g)
    add = QuantizedBinary("shifted_add", DType.INT16, low=-32768, high=32767)
    cell, scale = c.add(add, kept, new), scale_of(c.quant(19))
    clip = _F32(c.options["cell_clip"])
    if scale != _F32(2**-15) or not 0 < clip < 1:
        return cell
    bound = int(clip / scale)
    return c.add(Rescale(_ONE, 0, 0, 0, 0, -bound, bound, DType.INT16), cell)


def _projected(c: Context, out: Value) -> Value:
    given, w = c.quant(18), c.data(16)
    good = w.dtype == np.int8 and w.ndim == 2 and w.shape[1] == out.type.dims[-1]
    c.require(good, f"input 16 is {w.dtype} {list(w.shape)}")
    pair = integer_multiplier(
        _F32(float(scale_of(c.quant(16))) * 2.0**-15 / float(scale_of(given)))
    )
    op = QuantizedGemm(zero_out=zero_of(given), rounding="wide", transpose_b=True)
    y = c.add(op, out, c.constant(w, "weights"), c.value(17), *_vectors(c, pair))
    clip = _F32(c.options["proj_clip"])
    bound = int(min(clip / scale_of(output_quant(c)), _F32(127))) if clip > 0 else 0
    return y if bound == 0 else c.add(Rescale(_ONE, 0, 0, 0, 0, -bound, bound, DType.INT8), y)
