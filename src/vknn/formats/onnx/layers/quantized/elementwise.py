"""Elementwise operators of onnxruntime on quantized integers: tables of one, sums of two."""

from __future__ import annotations

import math

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import (
    BYTES,
    dequantized,
    mapped,
    quantized,
    rounded,
    shifted,
    single,
)  # fmt: skip
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Where
from vknn.ops.movement.shape import Concat, Identity
from vknn.ops.reduction import Softmax

#: Below this version of ONNX softmax runs over all axes from ``axis`` on.
_ONE_AXIS = 13


@operator("QLinearSigmoid", 1, inputs=(4, 5), domain=MICROSOFT)
def qlinear_sigmoid(c: Context) -> Value:
    """1 / (1 + e^-x) of quantized integers"""
    return _unary(c, ew.Sigmoid())


@operator("QLinearLeakyRelu", 1, inputs=(4, 5), domain=MICROSOFT)
def qlinear_leaky_relu(c: Context) -> Value:
    """x, or alpha * x below 0, of quantized integers"""
    return _unary(c, ew.LeakyRelu(c.float("alpha", 0.01)))


def _unary(c: Context, op: Op) -> Value:
    found = mapped(c, 0, (3, 4), lambda real: c.add(op, real))
    return c.add(Identity(), found) if found is c.x else found


@operator("QLinearAdd", 1, inputs=(7, 8), domain=MICROSOFT)
def qlinear_add(c: Context) -> Value:
    """a + b of quantized integers with scales of their own"""
    a, b = (c.cast(c.value(i), DType.FLOAT32) for i in (0, 3))
    to = c.cast(_number(c, 6), DType.FLOAT32)
    by_a, by_b = (c.add(ew.Div(), _number(c, i), to) for i in (1, 4))
    zeros = [c.cast(_number(c, i), DType.FLOAT32) for i in (2, 5, 7)]
    # In the order of onnxruntime's kernel, which decides how halves come out: the zero points make
    # one number, of a fused product, to which the products with b and a are added.
    second = c.cast(c.add(ew.Mul(), by_b, zeros[1]), DType.FLOAT64)
    first = c.add(ew.Mul(), *(c.cast(v, DType.FLOAT64) for v in (by_a, zeros[0])))
    both = c.cast(c.add(ew.Add(), first, second), DType.FLOAT32)
    base = c.add(ew.Sub(), zeros[2], both)
    found = c.add(ew.Add(), c.add(ew.Mul(), b, by_b), base)
    return rounded(c, c.add(ew.Add(), c.add(ew.Mul(), a, by_a), found), None, _kind(c))


@operator("QLinearMul", 1, inputs=(7, 8), domain=MICROSOFT)
def qlinear_mul(c: Context) -> Value:
    """a * b of quantized integers with scales of their own"""
    a, b = (shifted(c, c.value(i), _number(c, i + 2)) for i in (0, 3))
    whole = c.cast(c.add(ew.Mul(), a, b), DType.FLOAT32)
    factor = c.add(ew.Mul(), _number(c, 1), _number(c, 4))
    factor = c.add(ew.Div(), factor, _number(c, 6))
    return rounded(c, c.add(ew.Mul(), whole, factor), _number(c, 7), _kind(c))


def _kind(c: Context) -> DType:
    """The element type of the first input, which has 8 bits."""
    c.require(c.x.type.dtype in BYTES, f"takes integers of 8 bits, not {c.x.type}")
    return c.x.type.dtype


def _number(c: Context, number: int) -> Value:
    """A scale or zero point, without axes; 0 where it is left out."""
    found = single(c, c.optional(number), "scale or zero point")
    return c.scalar(0, DType.INT32) if found is None else found


@operator("QLinearWhere", 1, inputs=9, domain=MICROSOFT)
def qlinear_where(c: Context) -> Value:
    """The second input where the first holds, else the third, with the result's scale"""
    a, b = (mapped(c, i, (7, 8), lambda real: real) for i in (1, 4))
    return c.add(Where(), c.value(0), a, b)


@operator("QLinearConcat", 1, inputs=(5, None), domain=MICROSOFT)
def qlinear_concat(c: Context) -> Value:
    """Quantized integers of several scales, one behind the other along an axis"""
    count = len(c.inputs)
    c.require(count % 3 == 2, f"has {count} inputs, not two and triples")
    parts = [mapped(c, i, (0, 1), lambda real: real) for i in range(2, count, 3)]
    axis = c.axis(c.int("axis"), parts[0].type.rank)
    return c.add(Concat(axis), *parts)


@operator("QLinearSoftmax", 1, inputs=5, domain=MICROSOFT)
def qlinear_softmax(c: Context) -> Value:
    """Softmax of quantized integers"""
    dims, kind = c.x.type.dims, _kind(c)
    axis = c.axis(c.int("axis", -1), c.rank)
    real = dequantized(c, c.x, c.value(1), c.optional(2))
    if c.int("opset") < _ONE_AXIS:
        real, axis = c.reshape(real, (math.prod(dims[:axis]), math.prod(dims[axis:]))), 1
    found = c.reshape(c.add(Softmax(axis), real), dims)
    return quantized(c, found, c.value(3), c.optional(4), kind)


@operator("MulInteger", 1, inputs=(3, 4), domain=MICROSOFT)
def mul_integer(c: Context) -> Value:
    """(a - zero point) * (b - zero point) as int32"""
    a, b = (shifted(c, c.value(i), single(c, c.optional(i + 1), "zero point")) for i in (0, 2))
    return c.cast(c.add(ew.Mul(), a, b), DType.INT32)
