"""Sums with biases, and what is made of them at once."""

from __future__ import annotations

import math

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import Softmax


@operator("BiasAdd", 1, inputs=3, domain=MICROSOFT)
def bias_add(c: Context) -> Value:
    """The sum of all three"""
    return c.add(ew.Add(), c.add(ew.Add(), c.value(0), c.value(1)), c.value(2))


@operator("BiasSoftmax", 1, inputs=2, domain=MICROSOFT)
def bias_softmax(c: Context) -> Value:
    """The softmax of a sum over the axes from `axis` on"""
    total, dims = c.add(ew.Add(), c.value(0), c.value(1)), c.x.type.dims
    c.require(total.type.dims == dims, f"{c.value(1).type} does not broadcast to {c.x.type}")
    axis = c.axis(c.int("axis", 1), c.rank)
    rows = c.reshape(total, (math.prod(dims[:axis]), math.prod(dims[axis:])))
    return c.reshape(c.add(Softmax(1), rows), dims)


@operator("BiasSplitGelu", 1, inputs=2, domain=MICROSOFT)
def bias_split_gelu(c: Context) -> Value:
    """The first half of a sum along the last axis times Gelu of the second half"""
    total = c.add(ew.Add(), c.value(0), c.value(1))
    axis, size = total.type.rank - 1, total.type.dims[-1]
    c.require(size % 2 == 0, f"cannot halve {total.type}")
    parts = [c.add(Slice((at,), (at + size // 2,), (axis,)), total) for at in (0, size // 2)]
    return c.add(ew.Mul(), parts[0], c.add(ew.Gelu(), parts[1]))


@operator("ComplexMul", 1, inputs=2, domain=MICROSOFT)
def complex_mul(c: Context) -> Value:
    """The product of complex numbers, whose parts are along the last axis"""
    return _complex_product(c, 1.0)


@operator("ComplexMulConj", 1, inputs=2, domain=MICROSOFT)
def complex_mul_conj(c: Context) -> Value:
    """The product of complex numbers, the second ones conjugated"""
    return _complex_product(c, -1.0)


def _complex_product(c: Context, sign: float) -> Value:
    a, b = c.value(0), c.value(1)
    good = all(v.type.rank and v.type.dims[-1] == 2 for v in (a, b))
    c.require(good, f"takes no {a.type} and {b.type}")
    (ar, ai), (br, bi) = (
        [c.add(Slice((i,), (i + 1,), (v.type.rank - 1,)), v) for i in range(2)] for v in (a, b)
    )
    bi = bi if sign > 0 else c.add(ew.Neg(), bi)
    real = c.add(ew.Sub(), c.add(ew.Mul(), ar, br), c.add(ew.Mul(), ai, bi))
    imaginary = c.add(ew.Add(), c.add(ew.Mul(), ar, bi), c.add(ew.Mul(), ai, br))
    return c.add(Concat(real.type.rank - 1), real, imaginary)
