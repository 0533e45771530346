"""Convolutions: Convolution, Convolution1D, Convolution3D and their DepthWise forms (in groups).

ncnn differs: SAME_LOWER (-234) of the 3D layers splits the padding of the depth as SAME_UPPER.
ncnn differs: SAME padding that is positive along one axis and negative along another (a stride
longer than the kernel) writes outside of its memory; here the latter axis is not padded.
ncnn differs: an int8 result that lies on a half after a sigmoid is rounded up or down by its place
in memory; here away from zero.
ncnn differs: weights of ConvolutionDepthWise1D for more rows than the input has are read as if
those in front were all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.common.activation import activate, check_activation
from vknn.formats.ncnn.layers.common.padding import (
    SAME_LOWER,
    applicable_pads,
    check_pads,
    pad_spatial,
    window_pads,
)
from vknn.formats.ncnn.layers.common.windows import (
    ConvWindow2D,
    ConvWindow3D,
    GroupParams,
    WeightedWindow,
    as_spatial,
    bias_input,
    check_channels,
    check_extents,
    dynamic_shape,
    float_weight,
    padded_sizes,
)
from vknn.formats.ncnn.layers.quantized.int8 import (
    check_term,
    dequantize,
    quantize,
    quantized_weight,
    scale_specs,
)
from vknn.formats.ncnn.params import param
from vknn.formats.ncnn.registry import FLOAT, FLOAT_OR_INT8, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.formats.windows import Pads, flat_pads, same_pads, window_extents
from vknn.graph import DType, Value, attributes
from vknn.ops.convolution.conv import Conv, ConvInteger


@attributes
class Convolution1DParams(WeightedWindow):
    """Parameters of Convolution1D, which all convolutions have."""

    pad_value: float = param(18, 0.0)
    dynamic_weight: int = param(19)

    @property
    def int8_term(self) -> int:
        """The int8_scale_term of layers of two axes; 0 (floats) for others, which lack it."""
        return 0

    @property
    def quantized(self) -> bool:
        """True for int8 products. Dynamic weights are floats, whatever the term says."""
        return bool(self.int8_term) and not self.dynamic

    @property
    def dynamic(self) -> bool:
        return bool(self.dynamic_weight)

    @property
    def weight_scales(self) -> int:
        """Number of weight scales in the file."""
        return self.num_output

    def check(self) -> None:
        check_pads([n for pair in self.pads for n in pair])
        check_activation(self.activation_type, self.activation_params)
        check_term(self.int8_term)
        self.check_window()


@attributes
class ConvolutionParams(ConvWindow2D, Convolution1DParams):
    """Parameters of Convolution."""

    int8_scale_term: int = param(8)

    @property
    def int8_term(self) -> int:
        return self.int8_scale_term


@attributes
class Convolution3DParams(ConvWindow3D, Convolution1DParams):
    """Parameters of Convolution3D."""

    @property
    def dynamic(self) -> bool:
        """False: these layers have no dynamic weights."""
        return False


@attributes
class ConvolutionDepthWiseParams(GroupParams, ConvolutionParams):
    """Parameters of ConvolutionDepthWise."""

    @property
    def weight_scales(self) -> int:
        return self.group if self.int8_scale_term % 100 == 1 else 1


@attributes
class ConvolutionDepthWise1DParams(GroupParams, Convolution1DParams):
    """Parameters of ConvolutionDepthWise1D."""


@attributes
class ConvolutionDepthWise3DParams(GroupParams, Convolution3DParams):
    """Parameters of ConvolutionDepthWise3D."""


def _weights(p: Convolution1DParams) -> list[WeightSpec]:
    if p.dynamic:
        return []
    return p.weight_specs() + scale_specs(p.int8_term, p.weight_scales)


def _result(p: Convolution1DParams, dtype: DType) -> DType:
    return DType.INT8 if p.quantized and p.int8_term > 100 else DType.FLOAT32


def convolve(c: Context[Any]) -> Value:
    """A convolution with the weights of the file, or with dynamic ones."""
    p: Convolution1DParams = c.params
    x = as_spatial(c, c.x, len(p.kernel))
    if p.dynamic:
        return _convolve_dynamic(c, x)
    c.require(
        p.quantized or x.type.dtype is DType.FLOAT32,
        f"takes float32, not {x.type.dtype.value}, without int8_scale_term",
    )
    array = float_weight(c) if not p.quantized else None
    if isinstance(p, ConvolutionDepthWise1DParams) and array is not None:
        array = _leading_weights(c, x, array)
    else:
        check_channels(c, x, p.weight_shape[1] * p.groups)
    if array is None:
        return _convolve_int8(c, x)
    weight = c.constant(array, "weight")
    y = _float_conv(c, x, weight, c.weight_value("bias"))
    return activate(c, y, p.activation_type, p.activation_params)


def _leading_weights(c: Context[Any], x: Value, array: np.ndarray) -> np.ndarray:
    """Weights, in memory order, as many as the channels of ``x`` need."""
    outputs, inputs, *kernel = array.shape
    channels, groups = shape(x)[0], c.params.groups
    if channels % groups or channels > inputs * groups:
        check_channels(c, x, inputs * groups)
    sizes = outputs, channels // groups, *kernel
    return array.reshape(-1)[: math.prod(sizes)].reshape(sizes)


def _convolve_dynamic(c: Context[Any], x: Value) -> Value:
    """A convolution with weights and bias as inputs; its kernel has the size of the weights."""
    p: Convolution1DParams = c.params
    c.require(x.type.dtype is DType.FLOAT32, "dynamic weights take float32")
    weight_shape = dynamic_shape(c, len(p.kernel))
    c.require(weight_shape[0] % p.groups == 0, "the outputs are not divisible by group")
    check_channels(c, x, weight_shape[1] * p.groups)
    weight = c.reshape(c.inputs[1], weight_shape)
    y = _float_conv(c, x, weight, bias_input(c, weight_shape[0]))
    return activate(c, y, p.activation_type, p.activation_params)


def _float_conv(c: Context[Any], x: Value, weight: Value, bias: Value | None) -> Value:
    x, attributes = _padded(c, x, weight.type.dims[2:])
    return c.add(Conv(*attributes), x, weight, bias)


def _padded(
    c: Context[Any], x: Value, kernel: tuple[int, ...]
) -> tuple[Value, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]]:
    """``x``, padded here unless with zeros, and strides, pads, dilations and group of the op."""
    p: Convolution1DParams = c.params
    pads = _pads(c, x, kernel)
    if p.pad_value != 0:
        x = pad_spatial(c, x, pads, p.pad_value)
        pads = ((0, 0),) * len(pads)
    return x, (p.strides, flat_pads(pads), p.dilations, p.groups)


def _pads(c: Context[Any], x: Value, kernel: tuple[int, ...]) -> Pads:
    p: Convolution1DParams = c.params
    sizes = x.type.dims[2:]
    extents = window_extents(kernel, p.dilations)
    pads = window_pads(p.pads, sizes, extents, p.strides)
    if len(sizes) == 3 and {n for pair in p.pads for n in pair} == {SAME_LOWER}:
        pads = same_pads(sizes[:1], extents[:1], p.strides[:1]) + pads[1:]
    pads = applicable_pads(c, pads)
    check_extents(c, padded_sizes(sizes, pads), extents)
    return pads


def _convolve_int8(c: Context[Any], x: Value) -> Value:
    """A convolution of int8 (see ``layers.quantized.int8``)."""
    p: Convolution1DParams = c.params
    scales = c.weight("weight_scale")
    # The file has one scale for all outputs, one for each group, or one for each output.
    per_output = np.repeat(scales, p.num_output // scales.size)
    weight = c.constant(quantized_weight(c, per_output), "weight")
    x = quantize(c, x, c.weight("bottom_scale"))
    x, attributes = _padded(c, x, weight.type.dims[2:])
    total = c.add(ConvInteger(*attributes), x, weight)
    y = dequantize(c, total, per_output, axis=1)
    y = activate(c, y, p.activation_type, p.activation_params)
    return quantize(c, y, c.weight("top_scale")) if p.int8_term > 100 else y


@layer(
    "Convolution",
    params=ConvolutionParams,
    weights=_weights,
    inputs=(1, 3),
    accepts=FLOAT_OR_INT8,
    result=_result,
    quantized=lambda p: p.quantized,
)
def convolution(c: Context[ConvolutionParams]) -> Value:
    """2-D convolution. For a 1 x 1 kernel of floats the values of a 1-D blob are channels, which
    old files rely on, and so are those of the output."""
    p = c.params
    if rank(c.x) > 1 or p.dynamic or p.quantized or p.kernel != (1, 1):
        return convolve(c)
    y = convolve(replace(c, inputs=[c.reshape(c.x, (*c.x.type.dims, 1, 1))]))
    c.require(shape(y)[1:] == (1, 1), "padding makes more than a vector of the vector")
    return c.reshape(y, y.type.dims[:2])


#: The other layers: parameters, most inputs (those of 3D have no dynamic weights), element types.
_LAYERS: dict[str, tuple[type[Convolution1DParams], int, frozenset[DType]]] = {
    "ConvolutionDepthWise": (ConvolutionDepthWiseParams, 3, FLOAT_OR_INT8),
    "Convolution1D": (Convolution1DParams, 3, FLOAT),
    "ConvolutionDepthWise1D": (ConvolutionDepthWise1DParams, 3, FLOAT),
    "Convolution3D": (Convolution3DParams, 1, FLOAT),
    "ConvolutionDepthWise3D": (ConvolutionDepthWise3DParams, 1, FLOAT),
}
for _name, (_params, _most, _types) in _LAYERS.items():
    layer(
        _name,
        params=_params,
        weights=_weights,
        inputs=(1, _most),
        accepts=_types,
        result=_result,
        quantized=lambda p: p.quantized,
    )(convolve)
