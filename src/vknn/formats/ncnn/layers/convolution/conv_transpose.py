"""Transposed convolutions of one, two and three spatial axes, plain and in groups.

The weights of the file are [outputs][inputs of a group][kernel], those that come as an input
(inputs, outputs of a group, kernel).

ncnn differs: an output size beyond that of the full output is read from outside of its memory, and
one without pads of -233 or -234 leaves no output; vknn refuses both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.ncnn.context import MAX_ELEMENTS, Context
from vknn.formats.ncnn.layers.common.padding import SAME_LOWER, SAME_UPPER, Pads, flat_pads
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
from vknn.formats.ncnn.params import param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.convolution.conv_transpose import ConvTranspose


@attributes
class _Transposed(Weighted):
    """What the layers of one to three axes share."""

    output_pad_right: int = param(18)

    @property
    def extra(self) -> tuple[int, ...]:
        """What the full output is lengthened by along each axis."""
        return (self.output_pad_right,)

    @property
    def target(self) -> tuple[int, ...]:
        """The size to cut the output to; it counts where all are positive."""
        return (0,)

    def check(self) -> None:
        self.check_window()
        check_activation(self.activation_type, self.activation_params)
        flat = flat_pads(self.pads)
        require(
            min(flat) >= 0 or max(flat) <= 0, f"negative padding {list(flat)} beside a positive one"
        )
        require(min(self.extra) >= 0, f"output padding {list(self.extra)} must not be negative")
        if max(flat) > 0 or min(self.target) <= 0:
            return
        require(
            SAME_UPPER in flat or SAME_LOWER in flat,
            f"an output size of {list(self.target)} needs pads of {SAME_UPPER} or {SAME_LOWER}, "
            f"not {list(flat)}",
        )


@attributes
class Deconvolution1DParams(_Transposed):
    """Parameters of Deconvolution1D."""

    output_w: int = param(20)
    dynamic_weight: int = param(28)

    @property
    def dynamic(self) -> bool:
        return bool(self.dynamic_weight)

    @property
    def target(self) -> tuple[int, ...]:
        return (self.output_w,)


@attributes
class DeconvolutionParams(Plane, Deconvolution1DParams):
    """Parameters of Deconvolution."""

    output_pad_bottom: int = param(19, like="output_pad_right")
    output_h: int = param(21, like="output_w")

    @property
    def extra(self) -> tuple[int, ...]:
        return self.output_pad_bottom, self.output_pad_right

    @property
    def target(self) -> tuple[int, ...]:
        return self.output_h, self.output_w


@attributes
class Deconvolution3DParams(Volume, _Transposed):
    """Parameters of Deconvolution3D."""

    output_pad_bottom: int = param(19, like="output_pad_right")
    output_pad_behind: int = param(20, like="output_pad_right")
    output_w: int = param(25)
    output_h: int = param(26, like="output_w")
    output_d: int = param(27, like="output_w")

    @property
    def extra(self) -> tuple[int, ...]:
        return self.output_pad_behind, self.output_pad_bottom, self.output_pad_right

    @property
    def target(self) -> tuple[int, ...]:
        return self.output_d, self.output_h, self.output_w


@attributes
class DeconvolutionDepthWise1DParams(Grouped, Deconvolution1DParams):
    """Parameters of DeconvolutionDepthWise1D."""


@attributes
class DeconvolutionDepthWiseParams(Grouped, DeconvolutionParams):
    """Parameters of DeconvolutionDepthWise."""


@attributes
class DeconvolutionDepthWise3DParams(Grouped, Deconvolution3DParams):
    """Parameters of DeconvolutionDepthWise3D."""


def _weights(p: _Transposed) -> list[WeightSpec]:
    return [] if p.dynamic else p.weight_specs()


@layer("Deconvolution", params=DeconvolutionParams, weights=_weights, bottoms=(1, 3))
def deconvolution(c: Context[DeconvolutionParams]) -> Value:
    """Along h and w."""
    return _deconvolve(c)


@layer(
    "DeconvolutionDepthWise",
    params=DeconvolutionDepthWiseParams,
    weights=_weights,
    bottoms=(1, 3),
)
def deconvolution_depthwise(c: Context[DeconvolutionDepthWiseParams]) -> Value:
    """Along h and w, in ``group`` independent groups of channels."""
    return _deconvolve(c)


@layer("Deconvolution1D", params=Deconvolution1DParams, weights=_weights, bottoms=(1, 3))
def deconvolution_1d(c: Context[Deconvolution1DParams]) -> Value:
    """Along w; the channels are the rows."""
    return _deconvolve(c)


@layer(
    "DeconvolutionDepthWise1D",
    params=DeconvolutionDepthWise1DParams,
    weights=_weights,
    bottoms=(1, 3),
)
def deconvolution_depthwise_1d(c: Context[DeconvolutionDepthWise1DParams]) -> Value:
    """Along w, in ``group`` independent groups of rows."""
    return _deconvolve(c)


@layer("Deconvolution3D", params=Deconvolution3DParams, weights=_weights)
def deconvolution_3d(c: Context[Deconvolution3DParams]) -> Value:
    """Along d, h and w."""
    return _deconvolve(c)


@layer("DeconvolutionDepthWise3D", params=DeconvolutionDepthWise3DParams, weights=_weights)
def deconvolution_depthwise_3d(c: Context[DeconvolutionDepthWise3DParams]) -> Value:
    """Along d, h and w, in ``group`` independent groups of channels."""
    return _deconvolve(c)


def _deconvolve(c: Context[Any]) -> Value:
    p: _Transposed = c.params
    x = as_spatial(c, c.x, len(p.kernel))
    if p.dynamic:
        weight = _dynamic_weight(c, x)
        bias = bias_input(c, weight.type.dims[1] * p.groups)
    else:
        check_channels(c, x, p.weight_shape[1] * p.groups)
        weight = c.constant(_input_major(float_weight(c), p.groups), "weight")
        bias = c.weight_value("bias")
    pads, extra = _cuts(c, x, weight.type.dims[2:])
    op = ConvTranspose(p.strides, flat_pads(pads), p.dilations, p.groups, extra)
    return activate(c, c.add(op, x, weight, bias), p.activation_type, p.activation_params)


def _input_major(weight: np.ndarray, group: int) -> np.ndarray:
    """[outputs, inputs of a group, kernel...] as [inputs, outputs of a group, kernel...]."""
    outputs, each, *kernel = weight.shape
    split = weight.reshape(group, outputs // group, each, *kernel).swapaxes(1, 2)
    return np.ascontiguousarray(split.reshape(group * each, outputs // group, *kernel))


def _dynamic_weight(c: Context[Any], x: Value) -> Value:
    """The second input as (inputs, outputs of a group, kernel...)."""
    p: _Transposed = c.params
    full = dynamic_shape(c, len(p.kernel))
    check_channels(c, x, full[0])
    c.require(full[0] % p.groups == 0, "the inputs are not divisible by group")
    return c.reshape(c.inputs[1], full)


def _cuts(c: Context[Any], x: Value, kernel: tuple[int, ...]) -> tuple[Pads, tuple[int, ...]]:
    """What is cut off the full output, and by how much it is lengthened before."""
    p: _Transposed = c.params
    flat = flat_pads(p.pads)
    geometry = zip(x.type.dims[2:], p.strides, p.dilations, kernel, p.extra, strict=True)
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in geometry]
    c.require(math.prod(full) < MAX_ELEMENTS, f"its full output {full} is absurdly large")
    if max(flat) > 0:
        return p.pads, p.extra
    if min(p.target) <= 0:
        return ((0, 0),) * len(kernel), p.extra
    cuts = [n - wanted for n, wanted in zip(full, p.target, strict=True)]
    c.require(
        min(cuts) >= 0, f"an output of {full} cannot be cut to the {list(p.target)} asked for"
    )
    lower = SAME_UPPER not in flat
    pads = tuple((n - n // 2, n // 2) if lower else (n // 2, n - n // 2) for n in cuts)
    return pads, p.extra
