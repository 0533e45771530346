"""Operators that are in no schema any more, but in files of 2017 and 2018."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.normalization import rms_normalized
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.movement.shape import Slice


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


@operator("SimplifiedLayerNormalization", 1, inputs=2, outputs=(1, 2))
def simplified_layer_normalization(c: Context) -> Value:
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on"""
    axis = c.axis(c.int("axis", -1), c.rank)
    scale_value = c.cast(c.value(1), c.x.type.dtype)
    return rms_normalized(c, c.x, axis, c.float("epsilon", 1e-5), scale_value)
