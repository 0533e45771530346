"""Convolutions of one, two and three spatial axes, plain and in groups.

ncnn differs: SAME_LOWER (-234) of the 3D layers splits the padding of the depth as SAME_UPPER.
ncnn differs: SAME padding that is positive along one axis and negative along another (a stride
longer than the kernel) writes outside of its memory; here the latter axis is not padded.
ncnn differs: an int8 result that lies on a half after a sigmoid is rounded up or down by its place
in memory; here away from zero.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.common.padding import (
    SAME_LOWER,
    Pads,
    check_pads,
    flat_pads,
    own_pads,
    pad_spatial,
    same_pads,
    window_pads,
)
from vknn.formats.ncnn.layers.common.windows import (
    Grouped,
    Plane,
    Volume,
    Weighted,
    as_spatial,
    bias_input,
    check_channels,
    dynamic_shape,
    float_weight,
)
from vknn.formats.ncnn.layers.elementwise.fused_activation import activate, check_activation
from vknn.formats.ncnn.layers.quantized.int8 import (
    check_term,
    dequantize,
    quantize,
    quantized_weight,
    scale_specs,
)
from vknn.formats.ncnn.params import param
from vknn.formats.ncnn.registry import FLOAT_OR_INT8, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value, attributes
from vknn.ops.convolution.conv import Conv, ConvInteger


@attributes
class Convolution1DParams(Weighted):
    """Parameters of Convolution1D, and of the others along w."""

    pad_value: float = param(18, 0.0)
    dynamic_weight: int = param(19)

    @property
    def int8_term(self) -> int:
        """0: floats. Only the layers of two axes have an int8 path."""
        return 0

    @property
    def quantized(self) -> bool:
        """Dynamic weights are floats and skip the int8 path."""
        return bool(self.int8_term) and not self.dynamic

    @property
    def dynamic(self) -> bool:
        return bool(self.dynamic_weight)

    @property
    def weight_scales(self) -> int:
        """How many weight scales the file holds."""
        return self.num_output

    def check(self) -> None:
        check_pads([n for pair in self.pads for n in pair])
        check_activation(self.activation_type, self.activation_params)
        check_term(self.int8_term)
        self.check_window()


@attributes
class ConvolutionParams(Plane, Convolution1DParams):
    """Parameters of Convolution."""

    int8_scale_term: int = param(8)

    @property
    def int8_term(self) -> int:
        return self.int8_scale_term


@attributes
class Convolution3DParams(Volume, Convolution1DParams):
    """Parameters of Convolution3D."""

    @property
    def dynamic(self) -> bool:
        """These layers know no dynamic weights."""
        return False


@attributes
class ConvolutionDepthWiseParams(Grouped, ConvolutionParams):
    """Parameters of ConvolutionDepthWise."""

    @property
    def weight_scales(self) -> int:
        return self.group if self.int8_scale_term % 100 == 1 else 1


@attributes
class ConvolutionDepthWise1DParams(Grouped, Convolution1DParams):
    """Parameters of ConvolutionDepthWise1D."""


@attributes
class ConvolutionDepthWise3DParams(Grouped, Convolution3DParams):
    """Parameters of ConvolutionDepthWise3D."""


AnyParams = Convolution1DParams


def _weights(p: AnyParams) -> list[WeightSpec]:
    if p.dynamic:
        return []
    return p.weight_specs() + scale_specs(p.int8_term, p.weight_scales)


def _result(p: AnyParams, dtype: DType) -> DType:
    return DType.INT8 if p.quantized and p.int8_term > 100 else DType.FLOAT32


@layer(
    "Convolution",
    params=ConvolutionParams,
    weights=_weights,
    bottoms=(1, 3),
    accepts=FLOAT_OR_INT8,
    result=_result,
    quantized=lambda p: p.quantized,
)
def convolution(c: Context[ConvolutionParams]) -> Value:
    """The values of a 1-D input are channels for a 1 x 1 kernel of floats (old files rely on it),
    and so are those of the output."""
    p = c.params
    if rank(c.x) > 1 or p.dynamic or p.quantized or p.kernel != (1, 1):
        return _convolve(c)
    y = _convolve(replace(c, inputs=[c.reshape(c.x, (*c.x.type.dims, 1, 1))]))
    c.require(shape(y)[1:] == (1, 1), "padding makes more than a vector of the vector")
    return c.reshape(y, y.type.dims[:2])


@layer(
    "ConvolutionDepthWise",
    params=ConvolutionDepthWiseParams,
    weights=_weights,
    bottoms=(1, 3),
    accepts=FLOAT_OR_INT8,
    result=_result,
    quantized=lambda p: p.quantized,
)
def convolution_depthwise(c: Context[ConvolutionDepthWiseParams]) -> Value:
    """A convolution of ``group`` independent groups of channels."""
    return _convolve(c)


@layer("Convolution1D", params=Convolution1DParams, weights=_weights, bottoms=(1, 3))
def convolution_1d(c: Context[Convolution1DParams]) -> Value:
    """Along w; the channels are the rows."""
    return _convolve(c)


@layer(
    "ConvolutionDepthWise1D",
    params=ConvolutionDepthWise1DParams,
    weights=_weights,
    bottoms=(1, 3),
)
def convolution_depthwise_1d(c: Context[ConvolutionDepthWise1DParams]) -> Value:
    """Along w, in ``group`` independent groups of rows.

    ncnn differs: weights for more rows than the input has are read as if those in front were all.
    """
    return _convolve(c)


@layer("Convolution3D", params=Convolution3DParams, weights=_weights)
def convolution_3d(c: Context[Convolution3DParams]) -> Value:
    """Along d, h and w."""
    return _convolve(c)


@layer("ConvolutionDepthWise3D", params=ConvolutionDepthWise3DParams, weights=_weights)
def convolution_depthwise_3d(c: Context[ConvolutionDepthWise3DParams]) -> Value:
    """Along d, h and w, in ``group`` independent groups of channels."""
    return _convolve(c)


def _convolve(c: Context[Any]) -> Value:
    p: AnyParams = c.params
    x = as_spatial(c, c.x, len(p.kernel))
    if p.dynamic:
        return _convolve_dynamic(c, x)
    c.require(
        p.quantized or x.type.dtype is DType.FLOAT32,
        f"takes float32, not {x.type.dtype.value}, without int8_scale_term",
    )
    array = float_weight(c) if not p.quantized else None
    if isinstance(p, ConvolutionDepthWise1DParams) and array is not None:
        array = _front(c, x, array)
    else:
        check_channels(c, x, p.weight_shape[1] * p.groups)
    if array is None:
        return _convolve_int8(c, x)
    weight = c.constant(array, "weight")
    y = _float_conv(c, x, weight, c.weight_value("bias"))
    return activate(c, y, p.activation_type, p.activation_params)


def _front(c: Context[Any], x: Value, array: np.ndarray) -> np.ndarray:
    """As much of the weights as the channels of ``x`` need."""
    outputs, inputs, *kernel = array.shape
    channels, groups = shape(x)[0], c.params.groups
    if channels % groups or channels > inputs * groups:
        check_channels(c, x, inputs * groups)
    sizes = outputs, channels // groups, *kernel
    return array.reshape(-1)[: math.prod(sizes)].reshape(sizes)


def _convolve_dynamic(c: Context[Any], x: Value) -> Value:
    """Weights and bias are inputs; the kernel's size comes from the weights."""
    p: AnyParams = c.params
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
    """``x``, padded where it is not with zeros, and strides, pads, dilations and group."""
    p: AnyParams = c.params
    pads = _pads(c, x, kernel)
    if p.pad_value != 0:
        x = pad_spatial(c, x, pads, p.pad_value)
        pads = ((0, 0),) * len(pads)
    return x, (p.strides, flat_pads(pads), p.dilations, p.groups)


def _pads(c: Context[Any], x: Value, kernel: tuple[int, ...]) -> Pads:
    p: AnyParams = c.params
    sizes = x.type.dims[2:]
    extents = [d * (k - 1) + 1 for d, k in zip(p.dilations, kernel, strict=True)]
    pads = window_pads(p.pads, sizes, extents, p.strides)
    if len(sizes) == 3 and {n for pair in p.pads for n in pair} == {SAME_LOWER}:
        pads = same_pads(sizes[:1], extents[:1], p.strides[:1], lower=False) + pads[1:]
    pads = own_pads(c, pads)
    padded = [n + sum(pair) for n, pair in zip(sizes, pads, strict=True)]
    c.require(
        all(n >= e for n, e in zip(padded, extents, strict=True)),
        f"the kernel covers {extents} cells, the padded input has only {padded}",
    )
    return pads


def _convolve_int8(c: Context[Any], x: Value) -> Value:
    p: AnyParams = c.params
    scales = c.weight("weight_scale")
    # One for all, one a group or one an output.
    per_output = np.repeat(scales, p.num_output // scales.size)
    weight = c.constant(quantized_weight(c, per_output), "weight")
    x = quantize(c, x, c.weight("bottom_scale"))
    x, attributes = _padded(c, x, weight.type.dims[2:])
    total = c.add(ConvInteger(*attributes), x, weight)
    y = dequantize(c, total, per_output, axis=1)
    y = activate(c, y, p.activation_type, p.activation_params)
    return quantize(c, y, c.weight("top_scale")) if p.int8_term > 100 else y
