"""Convolution and deconvolution over two and three axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merge_batch, restore_batch
from vknn.formats.coreml.layers.common.windows import (
    is_top_left,
    padded_shape,
    read_border_amounts,
    sizes,
)
from vknn.formats.coreml.registry import layer
from vknn.formats.windows import Pads, flat_pads, halves, same_pads, window_extents
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose


@dataclass(frozen=True)
class _Kernel:
    """Parameters of a convolution. ``padding`` None: SAME, in the mode ``top_left``."""

    outputs: int
    channels: int
    groups: int
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: Pads | None
    top_left: bool = False

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the window, dilation included."""
        return window_extents(self.size, self.dilations)


@layer("convolution", inputs=(1, 2))
def convolution(c: Context) -> Value:
    """Convolution over the last two axes, with weights of the file or a second input."""
    x, lead = merge_batch(c, c.x, 4)
    kernel = _kernel_2d(c)
    if c.params.isDeconvolution:
        c.require(c.optional(1) is None, "a deconvolution takes no weights as a second input")
        asked = sizes(c, c.params.outputShape, (0, 0), "outputShape", 0)
        y = _deconvolved(c, x, kernel, asked if c.params.outputShape else None)
    else:
        y = _convolved(c, x, kernel, _weights(c, kernel))
    return restore_batch(c, y, lead)


@layer("convolution3d")
def convolution_3d(c: Context) -> Value:
    """Convolution of x [B, C, D, H, W]."""
    c.require(c.x.type.rank == 5, f"its input {c.x.type} has not rank 5")
    kernel = _kernel_3d(c)
    if not c.params.isDeconvolution:
        return _convolved(c, c.x, kernel, _weights(c, kernel))
    asked = sizes(c, c.params.outputShape, (0, 0, 0), "outputShape", 0)
    return _deconvolved(c, c.x, kernel, asked if c.params.outputShape else None)


def _kernel_2d(c: Context) -> _Kernel:
    p = c.params
    same = p.WhichOneof("ConvolutionPaddingType") == "same"
    return _Kernel(
        *_channels(c, p.outputChannels, p.kernelChannels, p.nGroups),
        size=sizes(c, p.kernelSize, (3, 3), "kernelSize"),
        strides=sizes(c, p.stride, (1, 1), "stride"),
        dilations=sizes(c, p.dilationFactor, (1, 1), "dilationFactor"),
        padding=None if same else read_border_amounts(c, p.valid.paddingAmounts),
        top_left=same and is_top_left(p.same),
    )


def _kernel_3d(c: Context) -> _Kernel:
    p, none = c.params, (0, 0, 0)
    strides = (p.strideDepth or 1, p.strideHeight or 1, p.strideWidth or 1)
    dilations = (p.dilationDepth or 1, p.dilationHeight or 1, p.dilationWidth or 1)
    groups = max(1, p.nGroups)
    deep = p.inputChannels if p.isDeconvolution else p.inputChannels // groups
    whole = p.isDeconvolution or p.inputChannels % groups == 0
    c.require(whole, f"{p.inputChannels} channels are not {groups} groups")
    return _Kernel(
        *_channels(c, p.outputChannels, deep, p.nGroups),
        size=sizes(c, (p.kernelDepth, p.kernelHeight, p.kernelWidth), none, "its kernel"),
        strides=sizes(c, strides, none, "its stride"),
        dilations=sizes(c, dilations, none, "its dilation"),
        padding=padding_3d(c),
    )


def padding_3d(c: Context) -> Pads | None:
    """The padding of a layer over three axes; None for SAME."""
    p = c.params
    if p.paddingType == type(p).SAME:
        return None
    if p.paddingType == type(p).VALID:
        return ((0, 0), (0, 0), (0, 0))
    found = (
        (p.customPaddingFront, p.customPaddingBack),
        (p.customPaddingTop, p.customPaddingBottom),
        (p.customPaddingLeft, p.customPaddingRight),
    )
    flat = [v for edge in found for v in edge]
    sizes(c, flat, (0,) * 6, "its padding", 0)
    return found


def _channels(c: Context, outputs: int, channels: int, groups: int) -> tuple[int, int, int]:
    groups = groups or 1
    c.require(groups > 0, f"{groups} groups")
    c.require(outputs > 0, f"{outputs} output channels")
    c.require(outputs % groups == 0, f"{outputs} output channels are not {groups} groups")
    return int(outputs), int(channels), int(groups)


def _weights(c: Context, kernel: _Kernel) -> Value:
    """Weights [outputs, channels of a group, kernel...]."""
    shape = (kernel.outputs, kernel.channels, *kernel.size)
    given = c.optional(1)
    if given is None:
        return c.constant(c.weight(c.params.weights, shape, "weights"), "weights")
    dims = given.type.dims
    stated = (kernel.outputs, dims[1] if len(dims) > 1 else 1, *kernel.size)
    c.require(dims == stated, f"the weights {given.type} should be {list(shape)}")
    return given


def _bias(c: Context, kernel: _Kernel) -> Value | None:
    if not c.params.hasBias:
        return None
    return c.constant(c.weight(c.params.bias, kernel.outputs, "bias"), "bias")


def _convolved(c: Context, x: Value, kernel: _Kernel, w: Value) -> Value:
    padding = kernel.padding
    if padding is None:
        padding = same_pads(x.type.dims[2:], kernel.extents, kernel.strides, kernel.top_left)
    c.size(padded_shape(x, padding), "its padded input")
    op = Conv(kernel.strides, flat_pads(padding), kernel.dilations, kernel.groups)
    return c.add(op, x, w, _bias(c, kernel))


def _deconvolved(c: Context, x: Value, kernel: _Kernel, asked: Sequence[int] | None) -> Value:
    """Transposed convolution: the full result cropped by the padding, or extended by zeros."""
    shape = (kernel.channels, kernel.outputs // kernel.groups, *kernel.size)
    w = c.weight(c.params.weights, shape, "weights", channel_axis=1, groups=kernel.groups)
    cut = _cut(c, x.type.dims[2:], kernel, asked)
    extra = tuple(max(0, -end) for _, end in cut)
    kept = flat_pads(tuple((b, max(0, e)) for b, e in cut))
    strides, dilations = kernel.strides, kernel.dilations
    op = ConvTranspose(strides, kept, dilations, kernel.groups, extra if any(extra) else ())
    return c.add(op, x, c.constant(w, "weights"), _bias(c, kernel))


def _cut(c: Context, spatial: Sequence[int], kernel: _Kernel, asked: Sequence[int] | None) -> Pads:
    """The numbers of elements to cut off both ends of the full result; negative to add.

    An output shape takes precedence over the padding; where they agree the padding gives the sides.
    """
    full: list[int] = []
    found: list[tuple[int, int]] = []
    for axis, (size, extent, stride) in enumerate(
        zip(spatial, kernel.extents, kernel.strides, strict=True)
    ):
        padding = kernel.padding[axis] if kernel.padding is not None else None
        full.append((size - 1) * stride + extent)
        surplus = full[-1] - (asked[axis] if asked else size * stride)
        if padding is not None and (asked is None or sum(padding) == surplus):
            found.append(padding)
        else:
            found.append(halves(surplus, kernel.top_left) if surplus > 0 else (0, surplus))
    c.size([n + max(0, -end) for n, (_, end) in zip(full, found, strict=True)])
    return tuple(found)
