"""Quantize, Dequantize, Requantize and Cast."""

from __future__ import annotations

import numpy as np

from vknn.formats.layer_errors import Unsupported
from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.common.activation import activate, check_activation
from vknn.formats.ncnn.layers.quantized.int8 import quantize
from vknn.formats.ncnn.params import P, Params, param
from vknn.formats.ncnn.registry import ANY, INT32, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value, attributes
from vknn.ops.elementwise import Cast
from vknn.ops.quantized.linear import DequantizeLinear, RoundBFloat16

#: Type codes of Cast. A bfloat16 is stored as the float32 of the same value.
_AUTO, _FLOAT32, _FLOAT16, _INT8, _BFLOAT16 = range(5)
_DTYPES = {
    _FLOAT32: DType.FLOAT32,
    _FLOAT16: DType.FLOAT16,
    _INT8: DType.INT8,
    _BFLOAT16: DType.FLOAT32,
}
_CASTS = {
    (_FLOAT32, _FLOAT16),
    (_FLOAT16, _FLOAT32),
    (_FLOAT32, _BFLOAT16),
    (_BFLOAT16, _FLOAT32),
    (_INT8, _FLOAT32),
}


def _factors(c: Context[P], name: str) -> np.ndarray:
    """A scale or bias for the outermost axis: its first values; for 1-D blobs the first one."""
    array = c.weight(name)
    if rank(c.x) == 1 or array.size == 1:
        return array[:1]
    outermost = shape(c.x)[0]
    c.require(array.size >= outermost, f"{array.size} values of {name} for {outermost} channels")
    return array[:outermost]


@attributes
class QuantizeParams(Params):
    """Parameters of Quantize."""

    scale_data_size: int = param(0, 1)


@layer(
    "Quantize",
    params=QuantizeParams,
    weights=lambda p: [WeightSpec("scale", (p.scale_data_size,))],
    result=lambda p, dtype: DType.INT8,
)
def quantize_layer(c: Context[QuantizeParams]) -> Value:
    """float32 to int8 by a scale, or by one for each channel."""
    return quantize(c, c.x, _factors(c, "scale"))


@attributes
class DequantizeParams(Params):
    """Parameters of Dequantize."""

    scale_data_size: int = param(0, 1)
    bias_data_size: int = param(1)


def _dequantize_weights(p: DequantizeParams) -> list[WeightSpec]:
    specs = [WeightSpec("scale", (p.scale_data_size,))]
    return [*specs, WeightSpec("bias", (p.bias_data_size,))] if p.bias_data_size else specs


@layer("Dequantize", params=DequantizeParams, weights=_dequantize_weights, accepts=INT32)
def dequantize_layer(c: Context[DequantizeParams]) -> Value:
    """int32 to float32 by a scale and a bias, or by those of each channel."""
    return _scale_and_bias(c, "scale")


def _scale_and_bias(c: Context[P], name: str) -> Value:
    bias = None
    if "bias" in c.weights:
        bias = c.constant(_factors(c, "bias"), "bias")
    scale = c.constant(_factors(c, name), name)
    return c.add(DequantizeLinear(axis=1), c.x, scale, bias)


@attributes
class RequantizeParams(Params):
    """Parameters of Requantize."""

    scale_in_data_size: int = param(0, 1)
    scale_out_data_size: int = param(1, 1)
    bias_data_size: int = param(2)
    activation_type: int = param(3)
    activation_params: tuple[float, ...] = param(4, ())

    def check(self) -> None:
        check_activation(self.activation_type, self.activation_params)


def _requantize_weights(p: RequantizeParams) -> list[WeightSpec]:
    specs = [
        WeightSpec("scale_in", (p.scale_in_data_size,)),
        WeightSpec("scale_out", (p.scale_out_data_size,)),
    ]
    return [*specs, WeightSpec("bias", (p.bias_data_size,))] if p.bias_data_size else specs


@layer(
    "Requantize",
    params=RequantizeParams,
    weights=_requantize_weights,
    accepts=INT32,
    result=lambda p, dtype: DType.INT8,
)
def requantize(c: Context[RequantizeParams]) -> Value:
    """int32 to int8 by way of float32 and an activation.

    ncnn differs: here and in int8 convolutions it computes sigmoid and mish with an approximate
    reciprocal that depends on the CPU; where a value is within a few float digits of a half, the
    int8 may be one off.
    """
    y = _scale_and_bias(c, "scale_in")
    y = activate(c, y, c.params.activation_type, c.params.activation_params)
    return quantize(c, y, _factors(c, "scale_out"))


@attributes
class CastParams(Params):
    """Parameters of Cast."""

    type_from: int = param(0)
    type_to: int = param(1)

    def check(self) -> None:
        pair = (self.type_from, self.type_to)
        if self.type_from != self.type_to and pair not in _CASTS:
            raise Unsupported(f"conversion {pair[0]} -> {pair[1]}")


def _cast_result(p: CastParams, dtype: DType) -> DType:
    return dtype if p.type_from == p.type_to else _DTYPES[p.type_to]


@layer(
    "Cast",
    params=CastParams,
    accepts=ANY,
    result=_cast_result,
    quantized=lambda p: p.type_from == _INT8,
)
def cast(c: Context[CastParams]) -> Value:
    """Conversion of float32 to and from float16 and bfloat16, and of int8 to float32.

    A float32 input of a conversion from float16 or bfloat16 is rounded to that type first.

    ncnn differs: for the other pairs of types (float32 to int8, and type 0 on one side) it gives
    undefined elements; vknn refuses them.
    ncnn differs: to bfloat16 it truncates or rounds to nearest even, depending on the CPU; vknn
    rounds.
    """
    p, x = c.params, c.x
    if p.type_from == p.type_to:
        return x
    if x.type.dtype is DType.FLOAT32 and p.type_from == _FLOAT16:
        x = c.add(Cast(DType.FLOAT16), x)
    source = _DTYPES[p.type_from].value
    c.require(x.type.dtype is _DTYPES[p.type_from], f"takes {source}, not {x.type.dtype.value}")
    if _BFLOAT16 in (p.type_from, p.type_to):
        return c.add(RoundBFloat16(), x)
    return c.add(Cast(_DTYPES[p.type_to]), x)
