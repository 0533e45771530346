"""Layers of IR version 7 that its specification leaves out: Gemm, Convert, Copy."""

from __future__ import annotations

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Add, Mul
from vknn.ops.matmul import MatMul


@layer("Gemm", inputs=(2, 3))
def gemm(c: Context) -> Value:
    """alpha * a @ b + beta * c over the last two axes; the axes before broadcast."""
    a, b = c.float_input(), c.float_input(1)
    for x in (a, b):
        c.require(x.type.rank >= 2, f"{x.type} is no matrix")
    op = MatMul(c.bool("transpose_a", False), c.bool("transpose_b", False))
    y = _times(c, c.add(op, a, b), c.float("alpha", 1.0))
    beta = c.float("beta", 1.0)
    if len(c.inputs) < 3 or beta == 0:
        return y
    return c.add(Add(), y, _times(c, c.float_input(2), beta))


def _times(c: Context, x: Value, factor: float) -> Value:
    return x if factor == 1 else c.add(Mul(), x, c.scalar(factor))


@layer("Convert")
def convert(c: Context) -> Value:
    """x in the precision of the output port; fractions are cut off."""
    stated = c.text("precision", "").upper()
    dtype = {"I32": DType.INT32, "I64": DType.INT32, "FP32": DType.FLOAT32}.get(stated, c.dtype())
    return c.cast(c.x, dtype)


@layer("Copy")
def copy(c: Context) -> Value:
    return c.x
