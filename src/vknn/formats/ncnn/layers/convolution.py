"""Convolution and ConvolutionDepthWise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.formats.ncnn.context import Context, as_image, rank, shape
from vknn.formats.ncnn.layers.fused import activate, check_activation
from vknn.formats.ncnn.layers.innerproduct import dense
from vknn.formats.ncnn.layers.int8 import (
    check_term,
    dequantize,
    quantize,
    quantized_weight,
    scale_specs,
)
from vknn.formats.ncnn.layers.padded import (
    Pads,
    check_pads,
    flat_pads,
    pad_spatial,
    window_pads,
)
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import FLOAT_OR_INT8, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value
from vknn.ops.convolution import Conv, ConvInteger


@dataclass(frozen=True)
class ConvolutionParams(Params):
    """Parameters of Convolution; the two-axis ones default to that of the w axis."""

    num_output: int = param(0)
    kernel_w: int = param(1)
    kernel_h: int = param(11, like="kernel_w")
    dilation_w: int = param(2, 1)
    dilation_h: int = param(12, like="dilation_w")
    stride_w: int = param(3, 1)
    stride_h: int = param(13, like="stride_w")
    pad_left: int = param(4)
    pad_right: int = param(15, like="pad_left")
    pad_top: int = param(14, like="pad_left")
    pad_bottom: int = param(16, like="pad_top")
    pad_value: float = param(18, 0.0)
    bias_term: int = param(5)
    weight_data_size: int = param(6)
    int8_scale_term: int = param(8)
    activation_type: int = param(9)
    activation_params: tuple[float, ...] = param(10, ())
    dynamic_weight: int = param(19)

    @property
    def groups(self) -> int:
        return 1

    @property
    def quantized(self) -> bool:
        """Dynamic weights are floats and skip the int8 path."""
        return bool(self.int8_scale_term) and not self.dynamic_weight

    @property
    def weight_scales(self) -> int:
        """How many weight scales the file holds."""
        return self.num_output

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(outputs, inputs per group, kernel h, kernel w)."""
        per_output = self.num_output * self.kernel_h * self.kernel_w
        return self.num_output, self.weight_data_size // per_output, self.kernel_h, self.kernel_w

    @property
    def pads(self) -> Pads:
        return (self.pad_top, self.pad_bottom), (self.pad_left, self.pad_right)

    def check(self) -> None:
        strides = (self.stride_w, self.stride_h, self.dilation_w, self.dilation_h)
        require(min(strides) > 0, "strides and dilations must be positive")
        check_pads((self.pad_left, self.pad_right, self.pad_top, self.pad_bottom))
        check_activation(self.activation_type, self.activation_params)
        check_term(self.int8_scale_term)
        require(self.groups > 0, f"group {self.groups} must be positive")
        if self.dynamic_weight:
            return
        require(self.num_output > 0, f"num_output {self.num_output} must be positive")
        require(
            min(self.kernel_w, self.kernel_h) > 0,
            f"kernel {self.kernel_w} x {self.kernel_h} must be positive",
        )
        require(self.num_output % self.groups == 0, "num_output is not divisible by group")
        size, unit = self.weight_data_size, self.num_output * self.kernel_w * self.kernel_h
        require(
            size > 0 and size % unit == 0,
            f"weight_data_size {size} is not a multiple of num_output * kernel = {unit}",
        )


@dataclass(frozen=True)
class ConvolutionDepthWiseParams(ConvolutionParams):
    """Parameters of ConvolutionDepthWise."""

    group: int = param(7, 1)

    @property
    def groups(self) -> int:
        return self.group

    @property
    def weight_scales(self) -> int:
        return self.group if self.int8_scale_term % 100 == 1 else 1


def _weights(p: ConvolutionParams) -> list[WeightSpec]:
    if p.dynamic_weight:
        return []
    specs = [WeightSpec("weight", p.weight_shape, tagged=True)]
    if p.bias_term:
        specs.append(WeightSpec("bias", (p.num_output,)))
    return specs + scale_specs(p.int8_scale_term, p.weight_scales)


def _result(p: ConvolutionParams, dtype: DType) -> DType:
    return DType.INT8 if p.quantized and p.int8_scale_term > 100 else DType.FLOAT32


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
    """A 1-D input with a 1 x 1 kernel is an inner product (old files rely on it)."""
    p = c.params
    if rank(c.x) == 1 and not p.dynamic_weight and (p.kernel_w, p.kernel_h) == (1, 1):
        return _as_inner_product(c)
    return _convolve(c)


@layer(
    "ConvolutionDepthWise",
    params=ConvolutionDepthWiseParams,
    weights=_weights,
    bottoms=(1, 3),
    accepts=FLOAT_OR_INT8,
    result=_result,
    quantized=lambda p: p.quantized,
)
def convolution_depthwise(c: Context[ConvolutionParams]) -> Value:
    """A convolution of ``group`` independent groups of channels."""
    return _convolve(c)


def _convolve(c: Context[ConvolutionParams]) -> Value:
    p, x = c.params, as_image(c, c.x)
    if p.dynamic_weight:
        return _convolve_dynamic(c, x)
    c.require(
        p.quantized or x.type.dtype is DType.FLOAT32,
        f"takes float32, not {x.type.dtype.value}, without int8_scale_term",
    )
    _check_channels(c, x, p.weight_shape)
    if p.quantized:
        return _convolve_int8(c, x)
    weight = c.constant(_float_weight(c), "weight")
    y = _float_conv(c, x, weight, c.weight_value("bias"))
    return activate(c, y, p.activation_type, p.activation_params)


def _float_weight(c: Context[ConvolutionParams]) -> np.ndarray:
    weight = c.weight("weight")
    c.require(weight.dtype != np.int8, "int8 weights without int8_scale_term")
    return weight


def _check_channels(c: Context[ConvolutionParams], x: Value, weight_shape: tuple[int, ...]) -> None:
    expected = weight_shape[1] * c.params.groups
    c.require(
        shape(x)[0] == expected,
        f"its weights are for {expected} input channels, the input has {shape(x)[0]}",
    )


def _convolve_dynamic(c: Context[ConvolutionParams], x: Value) -> Value:
    """Weights and bias are inputs; the kernel's size comes from the weights."""
    p = c.params
    needed = 3 if p.bias_term else 2
    c.require(len(c.inputs) >= needed, f"dynamic weights need {needed} inputs")
    c.require(x.type.dtype is DType.FLOAT32, "dynamic weights take float32")
    weight_shape = shape(c.inputs[1])
    c.require(len(weight_shape) in (3, 4), f"dynamic weights of shape {list(weight_shape)}")
    if len(weight_shape) == 3:
        weight_shape = (weight_shape[0], 1, *weight_shape[1:])
    c.require(weight_shape[0] % p.groups == 0, "the outputs are not divisible by group")
    _check_channels(c, x, weight_shape)
    weight = c.reshape(c.inputs[1], weight_shape)
    bias = None
    if p.bias_term:
        c.require(math.prod(shape(c.inputs[2])) == weight_shape[0], "one bias an output is needed")
        bias = c.reshape(c.inputs[2], weight_shape[:1])
    y = _float_conv(c, x, weight, bias)
    return activate(c, y, p.activation_type, p.activation_params)


def _float_conv(
    c: Context[ConvolutionParams], x: Value, weight: Value, bias: Value | None
) -> Value:
    p = c.params
    pads = _pads(c, x, weight.type.dims[2:])
    if p.pad_value != 0:
        x = pad_spatial(c, x, pads, p.pad_value)
        pads = ((0, 0), (0, 0))
    op = Conv(
        strides=(p.stride_h, p.stride_w),
        pads=flat_pads(pads),
        dilations=(p.dilation_h, p.dilation_w),
        group=p.groups,
    )
    return c.add(op, x, weight, bias)


def _pads(c: Context[ConvolutionParams], x: Value, kernel: tuple[int, ...]) -> Pads:
    p, sizes = c.params, x.type.dims[2:]
    extents = [d * (k - 1) + 1 for d, k in zip((p.dilation_h, p.dilation_w), kernel, strict=True)]
    pads = window_pads(p.pads, sizes, extents, (p.stride_h, p.stride_w))
    padded = [n + sum(pair) for n, pair in zip(sizes, pads, strict=True)]
    c.require(
        all(n >= e for n, e in zip(padded, extents, strict=True)),
        f"the kernel covers {extents} cells, the padded input has only {padded}",
    )
    return pads


def _convolve_int8(c: Context[ConvolutionParams], x: Value) -> Value:
    p = c.params
    scales = c.weight("weight_scale")
    # One for all, one a group or one an output.
    per_output = np.repeat(scales, p.num_output // scales.size)
    weight = c.constant(quantized_weight(c, per_output), "weight")
    x = quantize(c, x, c.weight("bottom_scale"))
    pads = _pads(c, x, weight.type.dims[2:])
    if p.pad_value != 0:
        x = pad_spatial(c, x, pads, p.pad_value)
        pads = ((0, 0), (0, 0))
    op = ConvInteger(
        strides=(p.stride_h, p.stride_w),
        pads=flat_pads(pads),
        dilations=(p.dilation_h, p.dilation_w),
        group=p.groups,
    )
    y = dequantize(c, c.add(op, x, weight), per_output, axis=1)
    y = activate(c, y, p.activation_type, p.activation_params)
    return quantize(c, y, c.weight("top_scale")) if p.int8_scale_term > 100 else y


def _as_inner_product(c: Context[ConvolutionParams]) -> Value:
    p = c.params
    c.require(
        p.weight_shape[1] == shape(c.x)[0],
        f"its weights are for {p.weight_shape[1]} inputs, the input has {shape(c.x)[0]}",
    )
    y = dense(c, c.x, quantized=p.quantized)
    y = activate(c, y, p.activation_type, p.activation_params)
    return quantize(c, y, c.weight("top_scale")) if p.quantized and p.int8_scale_term > 100 else y
