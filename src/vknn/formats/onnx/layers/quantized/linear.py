"""QuantizeLinear and DequantizeLinear: per tensor, per axis and in blocks, to all small types."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import BYTES
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.small_floats import as_float
from vknn.graph import DType, Quantization, Value
from vknn.ops import elementwise as ew
from vknn.ops.casting import LowPrecisionCast
from vknn.ops.indexing.gather import Gather
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16

_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)
#: Integers of less than a byte: the range, and the type in which they are rounded.
_SMALL_RANGES = {
    DType.INT4: (-8, 7), DType.UINT4: (0, 15), DType.INT2: (-2, 1), DType.UINT2: (0, 3),
}  # fmt: skip
#: Floats of less than a byte.
_FEW_BITS = (DType.FLOAT4E2M1, DType.FLOAT6E2M3, DType.FLOAT6E3M2)
#: Numbers that are no codes.
_REAL = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64, DType.BOOL, DType.STRING)
#: Element types of scales.
_SCALES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT8E8M0, DType.INT32)


@operator("QuantizeLinear", 1, inputs=(2, 3), domain=MICROSOFT, any_type=True)
@operator("QuantizeLinear", *_VERSIONS, inputs=(2, 3), any_type=True)
def quantize_linear(c: Context) -> Value:
    """round(x / scale) + zero point, held within the range of the type"""
    x, scale, zero = c.x, c.value(1), c.optional(2)
    to = zero.type.dtype if zero is not None else c.dtype("output_dtype", DType.UINT8)
    stated = c.int("output_dtype", 0)
    if zero is None and not stated:
        to = DType.UINT8
    good = zero is None or not stated or c.dtype("output_dtype") is to
    c.require(good, f"has the zero point {to.value} and another output_dtype")
    _check_scale(c, x, scale, zero)
    precision = _precision(c, x, scale)
    x, scale = (_rounded(c, _float(c, v, DType.FLOAT32), precision) for v in (x, scale))
    x, scale, zero = _spread(c, x, scale, zero)
    if precision is not DType.FLOAT32:
        # The quotient is rounded twice: to the type of the division, then to whole numbers.
        x = _rounded(c, c.add(ew.Div(), x, _aligned(c, scale, x)), precision)
        scale = c.scalar(1.0)
        zero = None if zero is None else _aligned(c, zero, x)
    if to.is_small_float:
        quotient = c.add(ew.Div(), x, _aligned(c, scale, x))
        if zero is not None and to in _FEW_BITS:
            # As ONNX's reference has it; of float8 the zero point only says the type.
            quotient = c.add(ew.Add(), quotient, _aligned(c, as_float(c, zero), x))
        return c.add(LowPrecisionCast(to, c.flag("saturate", True)), quotient)
    zero = None if zero is None else _plain_integer(c, zero)
    low, high, kind = _range(to)
    simple = all(v is None or v.type.rank <= 1 for v in (scale, zero))
    if simple:
        axis = _axis(c, x, scale)
        found = c.add(QuantizeLinear(kind, low, high, axis=axis), x, scale, zero)
    else:
        whole = c.add(ew.Round(), c.add(ew.Div(), x, scale))
        if zero is not None:
            whole = c.add(ew.Add(), whole, c.cast(zero, whole.type.dtype))
        found = c.cast(c.add(ew.Clip(float(low), float(high)), whole), kind)
    return found if kind is to else c.add(LowPrecisionCast(to), found)


def _check_scale(c: Context, x: Value, scale: Value, zero: Value | None) -> None:
    """Check: scales are floats of one number, along an axis, or of blocks; zero points likewise."""
    c.require(scale.type.dtype in _SCALES, f"has the scale {scale.type}")
    if zero is not None and max(zero.type.size, scale.type.size) > 1:
        c.require(zero.type.dims == scale.type.dims, f"has scale {scale.type}, zero {zero.type}")
    c.require(c.int("block_size", 0) >= 0, f"has blocks of {c.int('block_size', 0)}")
    blocks = c.version >= 21 and c.int("block_size", 0) > 0
    good = not blocks or scale.type.rank == x.type.rank
    c.require(good, f"has blocks and the scale {scale.type} for {x.type}")
    if scale.type.size > 1 and not (blocks and scale.type.rank == x.type.rank):
        c.require(scale.type.rank == 1, f"has the scale {scale.type} for {x.type}")


def _precision(c: Context, x: Value, scale: Value) -> DType:
    """The type in which x is divided by the scale.

    From version 23 on the scale's where the node does not say. Before that float32, in which
    onnxruntime divides float16, too; of bfloat16 it is that, which only ONNX's reference divides.
    """
    divided = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
    if c.version >= 23 and c.int("precision", 0):
        wanted: DType = c.dtype("precision")
        c.require(wanted in divided, f"divides in {wanted.value}")
        return wanted
    if c.version >= 23:
        return scale.type.dtype if scale.type.dtype in divided else DType.FLOAT32
    both = x.type.dtype is scale.type.dtype is DType.BFLOAT16
    return DType.BFLOAT16 if both else DType.FLOAT32


def _rounded(c: Context, x: Value, precision: DType) -> Value:
    """float32 numbers rounded to a smaller type."""
    if precision is DType.BFLOAT16:
        return c.add(RoundBFloat16(), x)
    return x if precision is DType.FLOAT32 else c.cast(c.cast(x, precision), DType.FLOAT32)


def _float(c: Context, value: Value, wanted: DType) -> Value:
    if value.type.dtype.is_small_float and value.type.dtype is not DType.BFLOAT16:
        return c.add(LowPrecisionCast(wanted), value)
    return c.cast(value, wanted)


def _range(to: DType) -> tuple[int, int, DType]:
    """Least and greatest value of a type, and the type of whole bytes that holds them."""
    if to in _SMALL_RANGES:
        return (*_SMALL_RANGES[to], DType.INT8)
    info = np.iinfo(to.numpy)
    return int(info.min), int(info.max), to


def _plain_integer(c: Context, value: Value) -> Value:
    return (
        c.add(LowPrecisionCast(DType.INT8), value) if value.type.dtype.is_small_integer else value
    )


def _axis(c: Context, x: Value, scale: Value) -> int:
    """The axis along which scales lie; of one scale any."""
    if x.type.rank == 0 or scale.type.size == 1:
        return 0
    stated = c.version >= 13 or c.node.key[0] == MICROSOFT
    return c.axis(c.int("axis", 1) if stated else 1, x.type.rank)


def _aligned(c: Context, value: Value, x: Value) -> Value:
    """A vector along the node's axis, shaped to broadcast onto x."""
    if value.type.rank != 1:
        return value
    if value.type.size == 1:
        return c.reshape(value, ())
    axis = _axis(c, x, value)
    return c.reshape(value, (value.type.size, *[1] * (x.type.rank - axis - 1)))


def _spread(
    c: Context, x: Value, scale: Value, zero: Value | None
) -> tuple[Value, Value, Value | None]:
    """Scale and zero point, those of blocks repeated for each of the blocks' elements."""
    size = c.int("block_size", 0) if c.version >= 21 else 0
    if size <= 0 or scale.type.rank != x.type.rank or x.type.rank == 0:
        return x, scale, zero
    axis = c.axis(c.int("axis", 1), x.type.rank)
    count, blocks = x.type.dims[axis], scale.type.dims[axis]
    c.require(-(-count // size) == blocks, f"has {blocks} blocks of {size} for {count} elements")
    places = c.constant((np.arange(count) // size).astype(np.int32), "blocks")
    spread = [None if v is None else c.add(Gather(axis), v, places) for v in (scale, zero)]
    assert spread[0] is not None
    return x, spread[0], spread[1]


@operator("DequantizeLinear", 1, inputs=(2, 3), domain=MICROSOFT, any_type=True)
@operator("DequantizeLinear", *_VERSIONS, inputs=(2, 3), any_type=True)
def dequantize_linear(c: Context) -> Value:
    """(x - zero point) * scale"""
    x, given, zero = c.x, c.value(1), c.optional(2)
    same = zero is None or zero.type.dtype is x.type.dtype
    c.require(same and x.type.dtype not in _REAL, f"takes no {x.type} with {zero and zero.type}")
    _check_scale(c, x, given, zero)
    weights = _constant_weights(c, x, given, zero)
    if weights is not None:
        return weights
    to = given.type.dtype
    if c.version >= 23 and c.int("output_dtype", 0):
        to = c.dtype("output_dtype")
    scale = _float(c, given, DType.FLOAT32)
    x, scale, zero = _spread(c, x, scale, zero)
    if x.type.dtype.is_small_float:
        real = as_float(c, x)
        if zero is not None and x.type.dtype in (DType.FLOAT6E2M3, DType.FLOAT6E3M2):
            real = c.add(ew.Sub(), real, _aligned(c, as_float(c, zero), x))
        found = c.add(ew.Mul(), real, _aligned(c, scale, x))
        return c.cast(found, to)
    whole = _whole(c, x)
    if zero is not None and not (zero.constant is not None and not _any(zero)):
        whole = c.add(ew.Sub(), whole, _aligned(c, _whole(c, zero), x))
    if scale.type.rank <= 1:
        found = c.add(DequantizeLinear(_axis(c, x, scale)), whole, scale)
    else:
        found = c.add(ew.Mul(), c.cast(whole, DType.FLOAT32), scale)
    return c.cast(found, to)


def _constant_weights(c: Context, x: Value, scale: Value, zero: Value | None) -> Value | None:
    """Constants of 8 bits as float32 that remember their scales; None where it is not these."""
    numbers, steps = x.constant, scale.constant
    if numbers is None or steps is None or scale.type.dtype is not DType.FLOAT32:
        return None
    plain = x.type.dtype in BYTES and scale.type.rank <= 1 and steps.size > 0
    known = zero is None or zero.constant is not None
    if not plain or not known or (c.version >= 23 and c.int("output_dtype", 0)):
        return None
    axis = _axis(c, x, scale)
    whole = numbers.astype(np.int32)
    shape = (-1, *[1] * (max(x.type.rank, 1) - axis - 1))
    if zero is not None and zero.constant is not None:
        offsets = zero.constant.astype(np.int32).reshape(-1)
        whole = whole - (offsets.reshape(shape) if offsets.size > 1 else offsets.reshape(()))
    (real,) = DequantizeLinear(axis).reference(whole, steps)
    held = Quantization(tuple(float(s) for s in steps.reshape(-1)), (0,), axis)
    name = f"{c.origin.name}/weights"
    return c.builder.constant(real, name, held)


def _any(value: Value) -> bool:
    assert value.constant is not None
    return bool(np.any(value.constant.astype(np.float32)))


def _whole(c: Context, value: Value) -> Value:
    """Integers as int32, in which differences do not wrap."""
    if value.type.dtype.is_small_integer:
        return c.add(LowPrecisionCast(DType.INT32), value)
    return c.cast(value, DType.INT32)
