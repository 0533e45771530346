"""SVDF: a dense layer factored into a feature filter and a filter along time.

Each step multiplies the input by the feature weights and appends the result to a memory of the last
steps, a variable tensor; the time weights multiply that memory (Nakkiran et al. 2015, "Compressing
deep neural networks using a rank-constrained topology"). TensorFlow Lite's hybrid kernel multiplies
time weights by their scale, which is 0 for weights of floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import ACTIVATIONS, SIGN_BIT
from vknn.formats.tflite.layers.common.quantization import (
    integer_multiplier,
    output_quant,
    scale_of,
    zero_of,
)
from vknn.formats.tflite.layers.quantized.hybrid import rounded_rows, rows_rounding
from vknn.formats.tflite.layers.recurrent.weights import constant
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise import logic
from vknn.ops.matmul import MatMul, MatMulInteger
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.quantized.arithmetic import Rescale
from vknn.ops.reduction import ReduceSum


@dataclass(frozen=True)
class SVDFSizes:
    """Sizes of an SVDF: ``rank`` filters for each unit, ``memory`` steps."""

    batch: int
    filters: int
    memory: int
    rank: int

    @property
    def units(self) -> int:
        """Number of units."""
        return self.filters // self.rank


def sizes_of(c: Context) -> SVDFSizes:
    """Sizes from the weights, checked against the input, the state and the bias."""
    feature, time, state = (c.value(n).type for n in (1, 2, 4))
    good = c.x.type.rank == feature.rank == time.rank == 2
    c.require(good, f"takes matrices, not {c.x.type}, {feature} and {time}")
    rank = int(c.options["rank"])
    s = SVDFSizes(c.x.type.dims[0], feature.dims[0], time.dims[1], rank)
    c.require(feature.dims[1] == c.x.type.dims[1], f"multiplies {c.x.type} and {feature}")
    c.require(rank > 0 and s.filters % rank == 0, f"has {s.filters} filters of rank {rank}")
    c.require(time.dims[0] == s.filters and s.memory > 0, f"has weights {time} along the steps")
    held = s.batch * s.filters * s.memory
    c.require(state.size == held and state.rank == 2, f"remembers {held} numbers, not {state}")
    bias = c.optional(3)
    fits = bias is None or bias.type.dims == (s.units,)
    c.require(fits, f"has a bias of {s.units} units")
    return s


def update_memory(c: Context, s: SVDFSizes, new: Value) -> Value:
    """The memory [B, filters, memory] moved on by a step, with ``new`` [B, filters] as the last."""
    memory = c.reshape(c.value(4), (s.batch, s.filters, s.memory))
    last = c.reshape(new, (s.batch, s.filters, 1))
    if s.memory > 1:
        last = c.add(Concat(2), c.add(Slice((1,), (s.memory,), (2,)), memory), last)
    c.assign_variable(4, c.reshape(last, c.value(4).type.dims))
    return last


def sum_to_units(c: Context, s: SVDFSizes, products: Value) -> Value:
    """Products [B, filters, memory] summed to units [B, U]."""
    grouped = c.reshape(products, (s.batch, s.units, s.rank * s.memory))
    return c.add(ReduceSum((2,), False), grouped)


def _time_weights(c: Context) -> np.ndarray:
    """Time weights as float32; floats in a hybrid operator count as 0 (see the module)."""
    time = constant(c, 2)
    unscaled = rows_rounding(c, 1) != "none" and rows_rounding(c, 2) == "none"
    return np.zeros_like(time) if unscaled else time


@operator("SVDF", inputs=5)
def svdf(c: Context) -> Value:
    """SVDF on floats, by weights of floats or of 8 bits (hybrid)."""
    s = sizes_of(c)
    feature = c.constant(constant(c, 1), "weights")
    time = c.constant(_time_weights(c), "weights")
    new = c.add(MatMul(transpose_b=True), rounded_rows(c, c.x, 1), feature)
    y = sum_to_units(c, s, c.add(ew.Mul(), update_memory(c, s, new), time))
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
    """SVDF on int8, with a memory of int16 or int8 that has its own scale.

    The only activation is RELU, which the range of the output implements.
    """
    s = sizes_of(c)
    code = c.options["fused_activation_function"]
    c.require(code == 1, f"has the activation number {code} on integers, where there is RELU alone")
    x, held, given = c.quant(0), c.value(4).type.dtype, output_quant(c)
    feature, time = c.data(1), c.data(2)
    c.require(c.x.type.dtype is DType.INT8 and feature.dtype == np.int8, "takes int8")
    c.require(held in (DType.INT8, DType.INT16), f"remembers {held.value}")
    scales = [scale_of(q) for q in (x, c.quant(1), c.quant(4), c.quant(2), given)]
    first = integer_multiplier(scales[0] * scales[1] / scales[2])
    second = integer_multiplier(scales[2] * scales[3] / scales[4])
    sums = c.add(MatMulInteger(transpose_b=True), c.x, c.constant(feature))
    shift = -zero_of(x) * feature.sum(axis=1, dtype=np.int64)
    if shift.any():
        sums = c.add(ew.Add(), sums, c.constant(shift.astype(np.int32)))
    info = np.iinfo(held.numpy)
    new = c.add(Rescale(*first, 0, 0, 0, int(info.min), int(info.max), held), sums)
    wide = c.add(ew.Cast(DType.INT32), update_memory(c, s, new))
    y = sum_to_units(c, s, c.add(ew.Mul(), wide, c.constant(time.astype(np.int32))))
    bias = c.optional(3)
    y = y if bias is None else c.add(ew.Add(), y, bias)
    return c.add(Rescale(*second, 0, 0, zero_of(given), -128, 127, DType.INT8), y)
