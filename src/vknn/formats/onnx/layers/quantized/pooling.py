"""Means of quantized integers: of windows, of planes, along axes."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import (
    BYTES,
    dequantized,
    rounded,
    shifted,
    single,
)  # fmt: skip
from vknn.formats.onnx.layers.pooling import pooled_mean
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.pooling.pool import GlobalAveragePool
from vknn.ops.reduction import ReduceMean, ReduceSum


@operator("QLinearAveragePool", 1, inputs=(4, 5), domain=MICROSOFT)
def qlinear_average_pool(c: Context) -> Value:
    """The mean of each window of quantized integers, channels second or last"""
    kind, scale, zero = c.x.type.dtype, c.value(3), c.optional(4)
    c.require(kind in BYTES, f"takes integers of 8 bits, not {c.x.type}")
    c.inputs = (_channels_second(c, dequantized(c, c.x, c.value(1), c.optional(2))),)
    # Other than of AveragePool, onnxruntime's kernel divides by the size of the window then.
    found = pooled_mean(c, c.flag("count_include_pad"), whole=True)
    scaled = c.add(ew.Mul(), found, _reciprocal(c, scale))
    return _as_given(c, rounded(c, scaled, zero, kind))


@operator("QLinearGlobalAveragePool", 1, inputs=5, domain=MICROSOFT)
def qlinear_global_average_pool(c: Context) -> Value:
    """The mean of each plane of quantized integers, channels second or last"""
    whole = _channels_second(c, _whole(c))
    return _as_given(c, _rescaled(c, c.add(GlobalAveragePool(), whole)))


@operator("QLinearReduceMean", 1, inputs=(4, 5), domain=MICROSOFT)
def qlinear_reduce_mean(c: Context) -> Value:
    """The mean of quantized integers along axes"""
    axes = tuple(c.axis(a, c.rank) for a in c.int_list("axes"))
    return _rescaled(c, c.add(ReduceMean(axes or None, c.flag("keepdims", True)), _whole(c)))


@operator("ReduceSumInteger", 1, domain=MICROSOFT)
def reduce_sum_integer(c: Context) -> Value:
    """The sum of integers of 8 bits along axes, as int32 or uint32"""
    axes = tuple(c.axis(a, c.rank) for a in c.int_list("axes"))
    to = DType.UINT32 if c.x.type.dtype is DType.UINT8 else DType.INT32
    whole = c.cast(c.x, DType.INT32)
    return c.cast(c.add(ReduceSum(axes or None, c.flag("keepdims", True)), whole), to)


def _whole(c: Context) -> Value:
    """The integers without their zero point, as floats, whose sums are exact."""
    c.require(c.x.type.dtype in BYTES, f"takes integers of 8 bits, not {c.x.type}")
    return c.cast(shifted(c, c.x, single(c, c.optional(2), "zero point")), DType.FLOAT32)


def _rescaled(c: Context, mean: Value) -> Value:
    factor = c.add(ew.Mul(), c.reshape(c.value(1), ()), _reciprocal(c, c.value(3)))
    return rounded(c, c.add(ew.Mul(), mean, factor), c.optional(4), c.x.type.dtype)


def _reciprocal(c: Context, scale: Value) -> Value:
    return c.add(ew.Div(), c.scalar(1.0), c.reshape(scale, ()))


def _channels_second(c: Context, x: Value) -> Value:
    rank = x.type.rank
    last = c.flag("channels_last") and rank > 2
    return c.transpose(x, (0, rank - 1, *range(1, rank - 1))) if last else x


def _as_given(c: Context, x: Value) -> Value:
    """``x`` with its channels where the node has them."""
    rank = x.type.rank
    last = c.flag("channels_last") and rank > 2
    return c.transpose(x, (0, *range(2, rank), 1)) if last else x
