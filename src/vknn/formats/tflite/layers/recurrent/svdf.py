"""SVDF: a product with few numbers a step, remembered for some steps, then one along these.

The memory of each filter moves on by one step; all of it is a variable tensor. TensorFlow Lite's
hybrid form takes the bytes of its weights along the steps times their scale, so that floats, which
have none, count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import ACTIVATIONS, SIGN_BIT
from vknn.formats.tflite.layers.common.quantization import output_quant, scale_of, zero_of
from vknn.formats.tflite.layers.quantized.hybrid import rounded_rows, rows_rounding
from vknn.formats.tflite.layers.recurrent.weights import constant
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise import logic
from vknn.ops.matmul import MatMul, MatMulInteger
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import Rescale
from vknn.ops.reduction import ReduceSum


@dataclass(frozen=True)
class Sizes:
    """Sizes of an SVDF; ``rank`` filters are a unit."""

    batch: int
    filters: int
    memory: int
    rank: int

    @property
    def units(self) -> int:
        return self.filters // self.rank


def sizes_of(c: Context) -> Sizes:
    """Sizes, from the weights, held against the input and the state."""
    feature, time, state = (c.value(n).type for n in (1, 2, 4))
    good = c.x.type.rank == feature.rank == time.rank == 2
    c.require(good, f"takes matrices, not {c.x.type}, {feature} and {time}")
    rank = int(c.options["rank"])
    s = Sizes(c.x.type.dims[0], feature.dims[0], time.dims[1], rank)
    c.require(feature.dims[1] == c.x.type.dims[1], f"multiplies {c.x.type} and {feature}")
    c.require(rank > 0 and s.filters % rank == 0, f"has {s.filters} filters of rank {rank}")
    c.require(time.dims[0] == s.filters and s.memory > 0, f"has weights {time} along the steps")
    held = s.batch * s.filters * s.memory
    c.require(state.size == held and state.rank == 2, f"remembers {held} numbers, not {state}")
    bias = c.optional(3)
    fits = bias is None or bias.type.dims == (s.units,)
    c.require(fits, f"has a bias of {s.units} units")
    return s


def remember(c: Context, s: Sizes, new: Value) -> Value:
    """The memory [B, filters, memory] with ``new`` [B, filters] in its last place; it is kept."""
    memory = c.reshape(c.value(4), (s.batch, s.filters, s.memory))
    last = c.reshape(new, (s.batch, s.filters, 1))
    if s.memory > 1:
        last = c.add(Concat(2), c.add(Slice((1,), (s.memory,), (2,)), memory), last)
    c.assign_variable(4, c.reshape(last, c.value(4).type.dims))
    return last


def added_up(c: Context, s: Sizes, products: Value) -> Value:
    """Products [B, filters, memory] added up to units [B, U]."""
    grouped = c.reshape(products, (s.batch, s.units, s.rank * s.memory))
    return c.add(ReduceSum((2,), False), grouped)


def _time_weights(c: Context) -> np.ndarray:
    """Weights along the steps; those of a hybrid operator that are floats have no scale: 0."""
    time = constant(c, 2)
    unscaled = rows_rounding(c, 1) != "none" and rows_rounding(c, 2) == "none"
    return np.zeros_like(time) if unscaled else time


@operator("SVDF", inputs=5)
def svdf(c: Context) -> Value:
    """On floats; weights of 8 bits make it hybrid."""
    s = sizes_of(c)
    feature = c.constant(constant(c, 1), "weights")
    time = c.constant(_time_weights(c), "weights")
    new = c.add(MatMul(transpose_b=True), rounded_rows(c, c.x, 1), feature)
    y = added_up(c, s, c.add(ew.Mul(), remember(c, s, new), time))
    bias = c.optional(3)
    y = y if bias is None else c.add(ew.Add(), y, bias)
    code = c.options["fused_activation_function"]
    if code == SIGN_BIT:
        return c.add(ew.Cast(DType.FLOAT32), c.add(logic.Less(), y, c.scalar(0.0)))
    if code and code not in ACTIVATIONS:
        c.refuse(f"the activation number {code}")
    return c.add(ACTIVATIONS[code], y) if code else y


@quantized("SVDF")
def integer_svdf(c: Context) -> Value:
    """On integers: what is remembered has 16 bits (or 8), and a scale of its own.

    The only activation is RELU, which the output's range does.
    """
    s = sizes_of(c)
    code = c.options["fused_activation_function"]
    c.require(code == 1, f"has the activation number {code} on integers, where there is RELU alone")
    x, held, given = c.quant(0), c.value(4).type.dtype, output_quant(c)
    feature, time = c.data(1), c.data(2)
    c.require(c.x.type.dtype is DType.INT8 and feature.dtype == np.int8, "takes int8")
    c.require(held in (DType.INT8, DType.INT16), f"remembers {held.value}")
    scales = [scale_of(q) for q in (x, c.quant(1), c.quant(4), c.quant(2), given)]
    first = fp.quantize_multiplier(float(scales[0] * scales[1] / scales[2]))
    second = fp.quantize_multiplier(float(scales[2] * scales[3] / scales[4]))
    sums = c.add(MatMulInteger(transpose_b=True), c.x, c.constant(feature))
    shift = -zero_of(x) * feature.sum(axis=1, dtype=np.int64)
    if shift.any():
        sums = c.add(ew.Add(), sums, c.constant(shift.astype(np.int32)))
    info = np.iinfo(held.numpy)
    new = c.add(_rescale(first, 0, int(info.min), int(info.max), held), sums)
    wide = c.add(ew.Cast(DType.INT32), remember(c, s, new))
    y = added_up(c, s, c.add(ew.Mul(), wide, c.constant(time.astype(np.int32))))
    bias = c.optional(3)
    y = y if bias is None else c.add(ew.Add(), y, bias)
    return c.add(_rescale(second, zero_of(given), -128, 127, DType.INT8), y)


def _rescale(
    multiplier: tuple[np.ndarray, np.ndarray], zero: int, low: int, high: int, dtype: DType
) -> Rescale:
    q, shift = (int(part) for part in multiplier)
    return Rescale(q, shift, 0, 0, zero, low, high, dtype)
