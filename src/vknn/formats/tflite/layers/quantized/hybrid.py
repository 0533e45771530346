"""Products of floats with weights of 8 bits: what such an operator sees of its operands.

TensorFlow Lite rounds the data to 8 bits at run time, each row with steps of its own, multiplies
integers and scales the sums. Convolutions do so here too; the same sums, up to rounding, come of
floats that have been rounded to these steps, which is what the other products take.

Its kernels have peculiarities. The bytes of uint8 weights are taken for int8. Where both data
and the weight -128 lie in whole blocks of 16 along a row of FULLY_CONNECTED, their product has the
wrong sign if the data are negative. What BATCH_MATMUL does is said in ``hybrid_batches``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.elementwise.activation import activate
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv, ExactConv
from vknn.ops.elementwise import logic
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Expand
from vknn.ops.quantized.dynamic import DynamicRound

#: Data that the kernels of FULLY_CONNECTED take at a time.
_BLOCK = 16
_TANH, _SIGN_BIT = 4, 5
#: Whole weights are held as multiples of 1 / _UNIT: sums stay within float16 where tensors are
#: stored so, and powers of two change no digit.
_UNIT = 4096


def is_hybrid(c: Context, weights: int) -> bool:
    """True where the weights are integers, and the data of the operator are not."""
    return c.value(weights).type.dtype in (DType.INT8, DType.UINT8)


def real_weights(c: Context, number: int) -> Value:
    """Weights as floats."""
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
    """Images [N, C, ...] as a convolution by these weights sees them; 8-bit ones round."""
    return c.add(DynamicRound(_kind(c, weights), axis=1), x) if is_hybrid(c, weights) else x


def _kind(c: Context, weights: int) -> str:
    """How images are rounded: their steps have a zero point where weights scale by channel.

    CONV_2D looks whether the scales differ, and takes groups for channels with scales of their own.
    The other convolutions always take them so.
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


def convolved(
    c: Context, op: Conv, x: Value, turned: Callable[[Value], Value], bias: Value | None
) -> Value:
    """The convolution of x [N, C, ...] by the second input, which ``turned`` brings into its order.

    By 8-bit weights it is one of whole numbers, whose sums are scaled as the kernels do it: the
    next such layer finds the same number on either side of a half. No pass folds the scales into
    the weights of an ExactConv.
    """
    if not is_hybrid(c, 1) or c.value(1).constant is None:
        return c.add(op, rounded_images(c, x, 1), turned(real_weights(c, 1)), bias)
    kind, w = _kind(c, 1), c.value(1).constant
    assert w is not None
    whole = turned(c.constant(w.view(np.int8) * np.float32(1 / _UNIT), "weights"))
    channels, scale = whole.type.dims[0], c.quant(1).scale.astype(np.float32)
    counts, step, _ = c.add_many(DynamicRound(kind, axis=1, counts=True), x)
    sums = c.add(ExactConv(op.strides, op.pads, op.dilations, op.group), counts, whole)
    ones = (1,) * (x.type.rank - 2)
    scales = np.broadcast_to(scale * np.float32(_UNIT), channels).reshape(1, channels, *ones)
    by = c.constant(np.ascontiguousarray(scales), "scale")
    if kind == "asymmetric" and c.operator.code == "CONV_2D":
        each = c.add(Expand((x.type.dims[0], channels, *ones)), step)
        y = c.add(ew.Mul(), c.add(ew.Mul(), sums, by), each)
    else:
        y = c.add(ew.Mul(), sums, c.add(ew.Mul(), step, by))
    return y if bias is None else c.add(ew.Add(), y, c.reshape(bias, (1, channels, *ones)))


def rounded_rows(c: Context, x: Value, weights: int) -> Value:
    """Rows along the last axis, rounded as ``asymmetric_quantize_inputs`` says."""
    if not is_hybrid(c, weights):
        return x
    return c.add(DynamicRound(rows_rounding(c)), x)


def rows_rounding(c: Context) -> str:
    """How ``asymmetric_quantize_inputs`` says that rows are rounded."""
    return "asymmetric" if c.options["asymmetric_quantize_inputs"] else "symmetric"


def activate_hybrid(c: Context, y: Value) -> Value:
    """FULLY_CONNECTED by 8-bit weights is the one product that takes TANH and SIGN_BIT along."""
    code = c.options["fused_activation_function"]
    if code == _TANH:
        return c.add(ew.Tanh(), y)
    if code == _SIGN_BIT:
        return c.add(ew.Cast(DType.FLOAT32), c.add(logic.Less(), y, c.scalar(0.0)))
    return activate(c, y)


def dense(c: Context, x: Value, bias: Value | None) -> Value:
    """FULLY_CONNECTED: rows by weights [units, depth], rounded as the options say."""
    product, w = MatMul(transpose_b=True), real_weights(c, 1)
    if not is_hybrid(c, 1):
        return c.add(product, x, w, bias)
    rounded = rounded_rows(c, x, 1)
    y = c.add(product, rounded, w, bias)
    wrong = _wrong_signs(c)
    if wrong is None:
        return y
    return c.add(ew.Add(), y, c.add(product, c.add(ew.Clip(max=0.0), rounded), wrong))


def _wrong_signs(c: Context) -> Value | None:
    """What is added to the products of negative data, or None where it is all 0."""
    data, depth = c.value(1).constant, c.value(1).type.dims[-1]
    if data is None or c.options["asymmetric_quantize_inputs"]:
        return None
    lowest = data.view(np.int8) == -128
    lowest[:, depth // _BLOCK * _BLOCK :] = False
    if not lowest.any():
        return None
    scale = c.quant(1).scale.astype(np.float32).reshape(-1, 1)
    return c.constant(np.where(lowest, np.float32(256), np.float32(0)) * scale, "signs")
