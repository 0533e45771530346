"""Transposed convolutions: Deconvolution, Deconvolution1D, Deconvolution3D, and DepthWise forms.

Weights in the file are [outputs][inputs of a group][kernel], dynamic weights (a second input)
[inputs][outputs of a group][kernel].

ncnn differs: an output size beyond that of the full output is read from outside of its memory, and
one without pads of -233 or -234 leaves no output; vknn refuses both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.layers.common.activation import activate, check_activation
from vknn.formats.ncnn.layers.common.padding import SAME_LOWER, SAME_UPPER
from vknn.formats.ncnn.layers.common.windows import (
    ConvWindow2D,
    ConvWindow3D,
    GroupParams,
    WeightedWindow,
    as_spatial,
    bias_input,
    check_channels,
    dynamic_shape,
    float_weight,
)
from vknn.formats.ncnn.params import param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.formats.windows import Pads, flat_pads
from vknn.graph import Value, attributes
from vknn.ops.convolution.conv_transpose import ConvTranspose

#: Axis -> parameter of the output padding at its end.
_OUTPUT_PADS = {"d": "output_pad_behind", "h": "output_pad_bottom", "w": "output_pad_right"}


@attributes
class TransposedWindow(WeightedWindow):
    """Parameters that all layers have; output_w, output_h and output_d are in subclasses."""

    output_pad_right: int = param(18)

    @property
    def output_padding(self) -> tuple[int, ...]:
        """Cells that the full output is lengthened by along each axis."""
        return tuple(getattr(self, _OUTPUT_PADS[axis]) for axis in self.axes)

    @property
    def output_size(self) -> tuple[int, ...]:
        """Size to crop the output to; it counts where it is positive along all axes."""
        return self.by_axis("output")

    def check(self) -> None:
        self.check_window()
        check_activation(self.activation_type, self.activation_params)
        flat = flat_pads(self.pads)
        require(
            min(flat) >= 0 or max(flat) <= 0, f"negative padding {list(flat)} beside a positive one"
        )
        extra = list(self.output_padding)
        require(min(extra) >= 0, f"output padding {extra} must not be negative")
        if max(flat) > 0 or min(self.output_size) <= 0:
            return
        require(
            SAME_UPPER in flat or SAME_LOWER in flat,
            f"an output size of {list(self.output_size)} needs pads of {SAME_UPPER} or "
            f"{SAME_LOWER}, not {list(flat)}",
        )


@attributes
class Deconvolution1DParams(TransposedWindow):
    """Parameters of Deconvolution1D."""

    output_w: int = param(20)
    dynamic_weight: int = param(28)

    @property
    def dynamic(self) -> bool:
        return bool(self.dynamic_weight)


@attributes
class DeconvolutionParams(ConvWindow2D, Deconvolution1DParams):
    """Parameters of Deconvolution."""

    output_pad_bottom: int = param(19, like="output_pad_right")
    output_h: int = param(21, like="output_w")


@attributes
class Deconvolution3DParams(ConvWindow3D, TransposedWindow):
    """Parameters of Deconvolution3D."""

    output_pad_bottom: int = param(19, like="output_pad_right")
    output_pad_behind: int = param(20, like="output_pad_right")
    output_w: int = param(25)
    output_h: int = param(26, like="output_w")
    output_d: int = param(27, like="output_w")


@attributes
class DeconvolutionDepthWise1DParams(GroupParams, Deconvolution1DParams):
    """Parameters of DeconvolutionDepthWise1D."""


@attributes
class DeconvolutionDepthWiseParams(GroupParams, DeconvolutionParams):
    """Parameters of DeconvolutionDepthWise."""


@attributes
class DeconvolutionDepthWise3DParams(GroupParams, Deconvolution3DParams):
    """Parameters of DeconvolutionDepthWise3D."""


def _weights(p: TransposedWindow) -> list[WeightSpec]:
    return [] if p.dynamic else p.weight_specs()


def deconvolve(c: Context[Any]) -> Value:
    """A transposed convolution with the weights of the file, or with dynamic ones."""
    p: TransposedWindow = c.params
    x = as_spatial(c, c.x, len(p.kernel))
    if p.dynamic:
        weight = _dynamic_weight(c, x)
        bias = bias_input(c, weight.type.dims[1] * p.groups)
    else:
        check_channels(c, x, p.weight_shape[1] * p.groups)
        weight = c.constant(_input_major(float_weight(c), p.groups), "weight")
        bias = c.weight_value("bias")
    pads, extra = _crops(c, x, weight.type.dims[2:])
    op = ConvTranspose(p.strides, flat_pads(pads), p.dilations, p.groups, extra)
    return activate(c, c.add(op, x, weight, bias), p.activation_type, p.activation_params)


def _input_major(weight: np.ndarray, group: int) -> np.ndarray:
    """[outputs, inputs of a group, kernel...] as [inputs, outputs of a group, kernel...]."""
    outputs, each, *kernel = weight.shape
    split = weight.reshape(group, outputs // group, each, *kernel).swapaxes(1, 2)
    return np.ascontiguousarray(split.reshape(group * each, outputs // group, *kernel))


def _dynamic_weight(c: Context[Any], x: Value) -> Value:
    """The second input as (inputs, outputs of a group, kernel...)."""
    p: TransposedWindow = c.params
    full = dynamic_shape(c, len(p.kernel))
    check_channels(c, x, full[0])
    c.require(full[0] % p.groups == 0, "the inputs are not divisible by group")
    return c.reshape(c.inputs[1], full)


def _crops(c: Context[Any], x: Value, kernel: tuple[int, ...]) -> tuple[Pads, tuple[int, ...]]:
    """Pads that crop the full output, and the output padding that lengthens it before."""
    p: TransposedWindow = c.params
    flat = flat_pads(p.pads)
    geometry = zip(x.type.dims[2:], p.strides, p.dilations, kernel, p.output_padding, strict=True)
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in geometry]
    c.require(math.prod(full) < MAX_ELEMENTS, f"its full output {full} is absurdly large")
    if max(flat) > 0:
        return p.pads, p.output_padding
    if min(p.output_size) <= 0:
        return ((0, 0),) * len(kernel), p.output_padding
    crops = [n - wanted for n, wanted in zip(full, p.output_size, strict=True)]
    c.require(
        min(crops) >= 0, f"an output of {full} cannot be cut to the {list(p.output_size)} asked for"
    )
    lower = SAME_UPPER not in flat
    pads = tuple((n - n // 2, n // 2) if lower else (n // 2, n - n // 2) for n in crops)
    return pads, p.output_padding


#: Parameters and most inputs; layers of three axes have no dynamic weights.
_LAYERS: dict[str, tuple[type[TransposedWindow], int]] = {
    "Deconvolution": (DeconvolutionParams, 3),
    "DeconvolutionDepthWise": (DeconvolutionDepthWiseParams, 3),
    "Deconvolution1D": (Deconvolution1DParams, 3),
    "DeconvolutionDepthWise1D": (DeconvolutionDepthWise1DParams, 3),
    "Deconvolution3D": (Deconvolution3DParams, 1),
    "DeconvolutionDepthWise3D": (DeconvolutionDepthWise3DParams, 1),
}
for _name, (_params, _most) in _LAYERS.items():
    layer(_name, params=_params, weights=_weights, inputs=(1, _most))(deconvolve)
