"""Hybrid products: floats by weights of 8 bits, with dynamic quantization of the floats.

TensorFlow Lite rounds the data to 8 bits at run time, each row with its own step, multiplies
integers and scales the sums. Convolutions do the same here. Other products take floats rounded to
these steps, which gives the same sums up to rounding.

Errors of TensorFlow Lite's kernels are reproduced: bytes of uint8 weights are read as int8; in
FULLY_CONNECTED the product of negative data with the weight -128 has the wrong sign within whole
blocks of 16 elements of a row; for BATCH_MATMUL see ``hybrid_batch_matmul``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import SIGN_BIT, activate
from vknn.formats.tflite.layers.quantized.operands import few_bits
from vknn.formats.tflite.layers.quantized.packed_weights import dequantized_constant, packed_product
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv, ExactConv
from vknn.ops.elementwise import logic
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Expand
from vknn.ops.quantized.dynamic import DynamicRound

#: Elements that the kernel of FULLY_CONNECTED multiplies at a time.
_BLOCK = 16
_TANH = 4
#: Integer weights are stored as multiples of 1 / _UNIT, so that sums stay within float16 where
#: tensors are stored as such; a power of two changes no digit.
_UNIT = 4096


def is_hybrid(c: Context, weights: int) -> bool:
    """True where input ``weights`` has 8 bits (the data of the operator being floats)."""
    return c.value(weights).type.dtype in (DType.INT8, DType.UINT8)


def dequantized_weights(c: Context, number: int) -> Value:
    """Weights as float32: themselves, or 8-bit weights times their scale."""
    w = c.value(number)
    if not is_hybrid(c, number):
        return w
    quant, shape = c.quant(number), [1] * w.type.rank
    if quant.scale.size > 1:
        shape[quant.axis] = quant.scale.size
    scale = quant.scale.astype(np.float32).reshape(shape)
    if w.constant is not None:
        return c.constant(w.constant.view(np.int8).astype(np.float32) * scale, "weights")
    c.require(w.type.dtype is DType.INT8, f"computes its weights {w.type} at run time")
    return c.add(ew.Mul(), c.add(ew.Cast(DType.FLOAT32), w), c.constant(scale, "scale"))


def rounded_images(c: Context, x: Value, weights: int) -> Value:
    """Images [N, C, ...] as a convolution by input ``weights`` takes them: rounded for 8 bits."""
    return (
        c.add(DynamicRound(_image_rounding(c, weights), axis=1), x) if is_hybrid(c, weights) else x
    )


def _image_rounding(c: Context, weights: int) -> str:
    """Rounding of images: "asymmetric" (with zero point) for per-channel weights, else "symmetric".

    CONV_2D counts as per-channel where scales differ or there are groups; the other convolutions
    always do.
    """
    scale = c.quant(weights).scale
    by_channel = c.operator.code != "CONV_2D"
    if not by_channel:
        signed = c.value(weights).type.dtype is DType.INT8
        c.require(signed or scale.size == 1, "has uint8 weights with scales by channel")
        grouped = c.x.type.dims[-1] != c.value(weights).type.dims[-1]
        by_channel = bool((scale != scale[0]).any()) or grouped
    if by_channel and c.operator.code != "TRANSPOSE_CONV":
        w, axis = c.value(weights).type, 3 if c.operator.code == "DEPTHWISE_CONV_2D" else 0
        c.require(scale.size == w.dims[axis], f"has {scale.size} scales for weights {w}")
    return "asymmetric" if by_channel else "symmetric"


def convolve(
    c: Context, op: Conv, x: Value, reorder: Callable[[Value], Value], bias: Value | None
) -> Value:
    """Convolution of ``x`` [N, C, ...] by input 1, which ``reorder`` brings to [out, in, ...].

    With 8-bit weights it is a convolution of integers whose sums are scaled in the order of
    TensorFlow Lite's kernels, so that the next such layer rounds the same numbers. ExactConv keeps
    passes from folding the scales into its weights.
    """
    if not is_hybrid(c, 1) or c.value(1).constant is None:
        return c.add(op, rounded_images(c, x, 1), reorder(dequantized_weights(c, 1)), bias)
    kind, w = _image_rounding(c, 1), c.value(1).constant
    assert w is not None
    whole = reorder(c.constant(w.view(np.int8) * np.float32(1 / _UNIT), "weights"))
    channels, scale = whole.type.dims[0], c.quant(1).scale.astype(np.float32)
    counts, step, _ = c.add_many(DynamicRound(kind, axis=1, counts=True), x)
    exact = ExactConv(
        op.strides, op.pads, op.dilations, op.group, few_bits(c, 1), weight_unit=1 / _UNIT
    )
    sums = c.add(exact, counts, whole)
    ones = (1,) * (x.type.rank - 2)
    scales = np.broadcast_to(scale * np.float32(_UNIT), channels).reshape(1, channels, *ones)
    by = c.constant(np.ascontiguousarray(scales), "scale")
    if kind == "asymmetric" and c.operator.code == "CONV_2D":
        each = c.add(Expand((x.type.dims[0], channels, *ones)), step)
        y = c.add(ew.Mul(), c.add(ew.Mul(), sums, by), each)
    else:
        y = c.add(ew.Mul(), sums, c.add(ew.Mul(), step, by))
    return y if bias is None else c.add(ew.Add(), y, c.reshape(bias, (1, channels, *ones)))


def rows_rounding(c: Context, weights: int) -> str:
    """Rounding (see DynamicRound) of rows that input ``weights`` multiplies: "none" beside floats,
    otherwise as the option asymmetric_quantize_inputs says."""
    if not is_hybrid(c, weights):
        return "none"
    return "asymmetric" if c.options["asymmetric_quantize_inputs"] else "symmetric"


def rounded_rows(c: Context, x: Value, weights: int) -> Value:
    """``x`` as a product by input ``weights`` takes it: its rows (last axis) rounded, or itself."""
    kind = rows_rounding(c, weights)
    return x if kind == "none" else c.add(DynamicRound(kind), x)


def activate_hybrid(c: Context, y: Value) -> Value:
    """``y`` behind the fused activation of a hybrid FULLY_CONNECTED: TANH and SIGN_BIT too."""
    code = c.options["fused_activation_function"]
    if code == _TANH:
        return c.add(ew.Tanh(), y)
    if code == SIGN_BIT:
        return c.add(ew.Cast(DType.FLOAT32), c.add(logic.Less(), y, c.scalar(0.0)))
    return activate(c, y)


def dense(c: Context, x: Value, bias: Value | None) -> Value:
    """Rows ``x`` by the weights [units, depth] of a FULLY_CONNECTED; hybrid ones rounded first.

    Beside weights with scales of blocks they are not rounded: TensorFlow Lite's reference kernel
    has no such weights, and which steps others round by is not told by the file.
    """
    record = c.source(1)
    if record.blocks is not None:
        return packed_product(c, record, x, bias)
    if record.packed is not None:
        return packed_product(c, record, rounded_rows(c, x, 1), bias)
    if (source := dequantized_constant(c, 1)) is not None:
        return packed_product(c, source, x, bias)
    product, w = MatMul(transpose_b=True), dequantized_weights(c, 1)
    if not is_hybrid(c, 1):
        return c.add(product, x, w, bias)
    rounded = rounded_rows(c, x, 1)
    y = c.add(product, rounded, w, bias)
    correction = _sign_correction(c)
    if correction is None:
        return y
    return c.add(ew.Add(), y, c.add(product, c.add(ew.Clip(max=0.0), rounded), correction))


def _sign_correction(c: Context) -> Value | None:
    """Weights by which negative data are multiplied in addition, or None where they are all 0."""
    data, depth = c.value(1).constant, c.value(1).type.dims[-1]
    if data is None or c.options["asymmetric_quantize_inputs"]:
        return None
    lowest = data.view(np.int8) == -128
    lowest[:, depth // _BLOCK * _BLOCK :] = False
    if not lowest.any():
        return None
    scale = c.quant(1).scale.astype(np.float32).reshape(-1, 1)
    return c.constant(np.where(lowest, np.float32(256), np.float32(0)) * scale, "sign correction")
