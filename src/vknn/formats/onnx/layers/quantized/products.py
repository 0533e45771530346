"""Matrix products and convolutions of onnxruntime on quantized integers."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.integer_products import integer_product
from vknn.formats.onnx.layers.matmul import product
from vknn.formats.onnx.layers.quantized.integers import qlinear_conv, requantized, to_bytes
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew


@operator("MatMulInteger16", 1, inputs=2, domain=MICROSOFT)
def matmul_integer16(c: Context) -> Value:
    """a @ b of integers of 16 bits, as int32, or as uint32 of two unsigned ones"""
    a, b = c.value(0), c.value(1)
    for value in (a, b):
        known = value.type.dtype in (DType.INT16, DType.UINT16)
        c.require(known, f"takes integers of 16 bits, not {value.type}")
    unsigned = a.type.dtype is b.type.dtype is DType.UINT16
    wide = DType.UINT32 if unsigned else DType.INT32
    return product(c, c.cast(a, wide), c.cast(b, wide))


@operator("MatMulIntegerToFloat", 1, inputs=(4, 7), domain=MICROSOFT)
def matmul_integer_to_float(c: Context) -> Value:
    """The product of integers without their zero points, times their scales, plus a bias"""
    sums = integer_product(c, c.value(0), c.value(1), c.optional(4), c.optional(5))
    return scaled_product(c, sums, c.value(2), c.value(3), c.optional(6))


@operator("DynamicQuantizeMatMul", 1, inputs=(3, 5), domain=MICROSOFT)
def dynamic_quantize_matmul(c: Context) -> Value:
    """a, made uint8 by its range, times integers; with scales and a bias"""
    a, scale, zero = to_bytes(c, c.x)
    sums = integer_product(c, a, c.value(1), zero, c.optional(3))
    return scaled_product(c, sums, scale, c.value(2), c.optional(4))


def scaled_product(
    c: Context, sums: Value, a_scale: Value, b_scale: Value, bias: Value | None
) -> Value:
    """sums * (a scale * b scale) + bias in the type of the scales."""
    kind = b_scale.type.dtype
    scales = [c.cast(v, DType.FLOAT32) for v in (a_scale, b_scale)]
    scales = [c.reshape(v, ()) if v.type.size == 1 else v for v in scales]
    real = c.add(ew.Mul(), c.cast(sums, DType.FLOAT32), c.add(ew.Mul(), *scales))
    if bias is not None:
        real = c.add(ew.Add(), real, c.cast(bias, DType.FLOAT32))
    return c.cast(real, kind)


@operator("QGemm", 1, inputs=(6, 9), domain=MICROSOFT)
def qgemm(c: Context) -> Value:
    """alpha * a @ b + c of quantized integers, as quantized integers or as floats"""
    a, b = c.value(0), c.value(3)
    c.require(a.type.rank == b.type.rank == 2, f"takes matrices, not {a.type} and {b.type}")
    a = c.transpose(a, (1, 0)) if c.flag("transA") else a
    b = c.transpose(b, (1, 0)) if c.flag("transB") else b
    sums = integer_product(c, a, b, c.value(2), c.value(5))
    if c.optional(6) is not None:
        sums = c.add(ew.Add(), sums, c.cast(c.value(6), DType.INT32))
    scales = [c.reshape(v, ()) if v.type.size == 1 else v for v in (c.value(1), c.value(4))]
    factor = c.add(ew.Mul(), *scales)
    alpha = c.float("alpha", 1.0)
    factor = factor if alpha == 1.0 else c.add(ew.Mul(), factor, c.scalar(alpha))
    if c.optional(7) is None:
        return c.add(ew.Mul(), c.cast(sums, DType.FLOAT32), factor)
    factor = c.add(ew.Div(), factor, c.reshape(c.value(7), ()))
    zero = c.scalar(0, a.type.dtype) if c.optional(8) is None else c.value(8)
    return requantized(c, sums, factor, zero)


@operator("QLinearConv", 1, inputs=(8, 9), domain=MICROSOFT)
def qlinear_conv_of_layout(c: Context) -> Value:
    """Conv of quantized integers, as quantized integers, channels second or last"""
    rank = c.rank
    if not c.flag("channels_last") or rank < 3:
        return qlinear_conv(c)
    c.inputs = (c.transpose(c.x, (0, rank - 1, *range(1, rank - 1))), *c.inputs[1:])
    return c.transpose(qlinear_conv(c), (0, *range(2, rank), 1))
