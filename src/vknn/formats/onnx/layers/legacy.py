"""Operators that are in no schema any more, but in files of 2017 and 2018."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.normalization import rms_normalized
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.movement.shape import Expand, Slice


def _times(c: Context, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else c.add(ew.Mul(), x, c.scalar(factor, x.type.dtype))


@operator("Affine", 1)
def affine(c: Context) -> Value:
    """alpha * x + beta"""
    found = _times(c, c.x, c.float("alpha", 1.0))
    beta = c.float("beta", 0.0)
    return c.add(ew.Add(), found, c.scalar(beta, c.x.type.dtype))


@operator("Scale", 1)
def scale(c: Context) -> Value:
    """scale * x"""
    return c.add(ew.Mul(), c.x, c.scalar(c.float("scale", 1.0), c.x.type.dtype))


@operator("ScaledTanh", 1)
def scaled_tanh(c: Context) -> Value:
    """alpha * tanh(beta * x)"""
    inner = _times(c, c.x, c.float("beta", 1.0))
    return _times(c, c.add(ew.Tanh(), inner), c.float("alpha", 1.0))


@operator("ParametricSoftplus", 1)
def parametric_softplus(c: Context) -> Value:
    """alpha * ln(1 + e^(beta * x))"""
    inner = _times(c, c.x, c.float("beta", 1.0))
    return _times(c, c.add(ew.Softplus(), inner), c.float("alpha", 1.0))


@operator("ImageScaler", 1)
def image_scaler(c: Context) -> Value:
    """scale * x + bias of each channel"""
    found = _times(c, c.x, c.float("scale", 1.0))
    bias = np.asarray(c.float_list("bias", ()), np.float64)
    if not bias.size:
        return c.add(ew.Mul(), c.x, c.scalar(c.float("scale", 1.0), c.x.type.dtype))
    c.require(c.rank >= 2 and bias.size == c.x.type.dims[1], f"has {bias.size} biases")
    shape = (-1, *[1] * (c.rank - 2))
    row = c.constant(bias.astype(c.x.type.dtype.numpy).reshape(shape), "bias")
    return c.add(ew.Add(), found, row)


@operator("Crop", 1)
def crop(c: Context) -> Value:
    """An image without its border (left, top, right, bottom), or a part of the size ``scale``"""
    c.require(c.rank == 4, f"takes images, not {c.x.type}")
    left, top, right, bottom = c.int_list("border", (0, 0, 0, 0), 4)
    height, width = c.x.type.dims[2:]
    ends = (height - bottom, width - right)
    size = c.int_list("scale", None, 2)
    if size is not None:
        ends = (top + size[0], left + size[1])
    fits = 0 <= top <= ends[0] <= height and 0 <= left <= ends[1] <= width
    c.require(fits, f"cuts {list(ends)} out of {c.x.type}")
    return c.add(Slice((top, left), ends, (2, 3)), c.x)


def _filled_dims(c: Context) -> list[int]:
    """The shape to fill: the input's, or its elements, or ``shape``; and ``extra_shape``."""
    dims = list(c.int_list("shape", ()))
    if c.optional(0) is not None:
        dims = list(c.ints(0, "shape") if c.flag("input_as_shape") else c.x.type.dims)
    dims += c.int_list("extra_shape", ())
    c.require(min(dims, default=1) >= 0, f"{dims} is no shape")
    return dims


@operator("ConstantFill", 1, inputs=(0, 1), any_type=True)
def constant_fill(c: Context) -> Value:
    """One number in the shape of the input, of its elements or of ``shape``"""
    dims, to = _filled_dims(c), c.dtype("dtype") if c.has("dtype") else DType.FLOAT32
    number = c.constant(np.asarray(c.float("value", 0.0)).astype(to.numpy), "value")
    return c.add(Expand(tuple(dims)), number)


@operator("GivenTensorFill", 1, inputs=(0, 1), any_type=True)
def given_tensor_fill(c: Context) -> Value:
    """The numbers of ``values`` in the shape of the input, of its elements or of ``shape``"""
    dims = _filled_dims(c)
    values = np.asarray(c.float_list("values", ()), np.float32)
    c.require(math.prod(dims) == values.size, f"has {values.size} values for the shape {dims}")
    return c.constant(values.reshape(dims), "values")


@operator("GRUUnit", 1, inputs=4, any_type=True)
def gru_unit(c: Context) -> Value:
    """u * h + (1 - u) * tanh(o) of gates (reset, u, o), as far as a sequence is as long as that

    Inputs: the state h [1, N, D], gates [1, N, 3D] before sigmoid and tanh (the reset gate is part
    of o already), lengths [N], the step. Source: Caffe2's operator of this name, which ONNX 1.0 to
    1.4 list as experimental.
    """
    state, gates, lengths, step = (c.value(i) for i in range(4))
    ranks = (state.type.rank, gates.type.rank, lengths.type.rank, step.type.size)
    c.require(ranks == (3, 3, 1, 1), f"takes {state.type}, {gates.type} and {lengths.type}")
    depth = state.type.dims[2]
    wanted = (*state.type.dims[:2], 3 * depth)
    c.require(gates.type.dims == wanted, f"has gates {gates.type}, not {list(wanted)}")
    update, output = (c.add(Slice((k * depth,), ((k + 1) * depth,), (2,)), gates) for k in (1, 2))
    share = c.add(ew.Sigmoid(), update)
    rest = c.add(ew.Sub(), c.scalar(1.0, share.type.dtype), share)
    new = c.add(ew.Mul(), c.add(ew.Tanh(), output), rest)
    found = c.add(ew.Add(), c.add(ew.Mul(), state, share), new)
    steps, ends = (c.cast(v, DType.INT32) for v in (step, lengths))
    runs = c.add(Less(), c.reshape(steps, (1, 1, 1)), c.reshape(ends, (1, ends.type.size, 1)))
    kept = c.scalar(0.0, state.type.dtype) if c.flag("drop_states") else state
    return c.add(Where(), runs, found, kept)


@operator("SimplifiedLayerNormalization", 1, inputs=2, outputs=(1, 2))
def simplified_layer_normalization(c: Context) -> Value:
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on"""
    axis = c.axis(c.int("axis", -1), c.rank)
    kinds = {c.x.type.dtype, c.value(1).type.dtype}
    wide = c.x.type.dtype if len(kinds) == 1 else DType.FLOAT32
    x, scale = (c.cast(v, wide) for v in (c.x, c.value(1)))
    found = rms_normalized(c, x, axis, c.float("epsilon", 1e-5), scale)
    return c.cast(found, c.value(1).type.dtype)
