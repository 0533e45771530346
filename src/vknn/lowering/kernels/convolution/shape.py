"""Sizes of a convolution, its spatial axes filled up to three (depth, height, width)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.quantized.requantize import is_quantized
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import Convolution

Triple = tuple[int, int, int]
#: The largest number of float16.
_MOST_HALF = 65504


@dataclass(frozen=True)
class Channels:
    """Channels of a convolution and the groups that they are divided into."""

    channels_in: int
    channels_out: int
    group: int

    @property
    def group_in(self) -> int:
        """Input channels of a group."""
        return self.channels_in // self.group

    @property
    def group_out(self) -> int:
        """Output channels of a group."""
        return self.channels_out // self.group

    @property
    def c4(self) -> int:
        """vec4s of input channels."""
        return ceil_div(self.channels_in, 4)

    @property
    def m4(self) -> int:
        """vec4s of output channels."""
        return ceil_div(self.channels_out, 4)


@dataclass(frozen=True)
class ConvShape(Channels):
    """Sizes of a convolution; every tuple is (depth, height, width)."""

    batch: int
    size_in: Triple
    size_out: Triple
    kernel: Triple
    strides: Triple
    dilations: Triple
    pads: Triple  # begins

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Output pixels of an image."""
        return math.prod(self.size_out)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.channels_out * self.group_in * self.taps * self.pixels

    @property
    def has_depth(self) -> bool:
        """True where shaders need the depth: it is not 1, or a pad may hold the only window."""
        return max(self.size_in[0], self.size_out[0], self.kernel[0]) > 1 or self.pads[0] != 0

    @property
    def is_depthwise(self) -> bool:
        """True where each channel is a group of its own."""
        return self.group == self.channels_in == self.channels_out and self.group > 1

    @property
    def is_multiplied(self) -> bool:
        """True where each input channel is a group of its own that has several output channels."""
        return 1 < self.group == self.channels_in < self.channels_out

    @property
    def whole_vectors(self) -> bool:
        """True where no vec4 of channels belongs to two groups."""
        return self.group == 1 or (self.group_in % 4 == 0 and self.group_out % 4 == 0)

    @property
    def is_pointwise(self) -> bool:
        """True where output pixel i reads input pixel i and no other."""
        alone = self.taps == 1 and self.strides == (1, 1, 1) and self.pads == (0, 0, 0)
        return alone and self.size_in == self.size_out

    @property
    def has_padding(self) -> bool:
        """True where some tap of some pixel lies outside of the input."""
        axes = (self.size_in, self.size_out, self.kernel, self.strides, self.dilations, self.pads)
        return any(
            pad > 0 or (n_out - 1) * stride + (taps - 1) * dilation - pad >= n_in
            for n_in, n_out, taps, stride, dilation, pad in zip(*axes, strict=True)
        )

    def geometry(self) -> dict[str, int]:
        """Push constants: the input's size, kernel, strides, dilations and pads."""
        return {**self._window(), **by_axis("dilation", self.dilations)}

    def _window(self) -> dict[str, int]:
        """Push constants: all of the geometry but the dilations."""
        sizes = {**by_axis("in", self.size_in), **by_axis("kernel", self.kernel)}
        return {**sizes, **by_axis("stride", self.strides), **by_axis("pad", self.pads)}


def conv_shape(problem: Problem) -> ConvShape:
    """The sizes of a Conv, ExactConv, ConvInteger or QuantizedConv."""
    op, x, w = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, Convolution)
    axes = x.rank - 2
    return ConvShape(
        batch=x.dims[0],
        channels_in=x.dims[1],
        channels_out=w.dims[0],
        group=op.group,
        size_in=triple(x.dims[2:], 1),
        size_out=triple(problem.outputs[0].dims[2:], 1),
        kernel=triple(w.dims[2:], 1),
        strides=triple(op.strides, 1),
        dilations=triple(op.dilations, 1),
        pads=triple(op.pads[:axes], 0),
    )


def has_bias(problem: Problem) -> bool:
    """True where there is a bias that is packed with the weights."""
    there = len(problem.inputs) > 2 and problem.inputs[2] is not None
    return there and not is_quantized(problem)


def constant_weights(problem: Problem) -> tuple[np.ndarray, ...] | None:
    """Weight and, where there is one, bias; None where either is known only at run time."""
    found = problem.constants[1 : 3 if has_bias(problem) else 2]
    return None if any(c is None for c in found) else tuple(c for c in found if c is not None)


def has_finite_weights(problem: Problem) -> bool:
    """True where a zero times any weight is 0: weights that are known, and finite as stored."""
    weights = problem.constants[1]
    if not problem.input(1).dtype.is_float:
        return True
    if weights is None:
        return False
    # Twice through the weights, and nothing of their size beside them; a NaN is within no bounds.
    least, most = weights.min(initial=0), weights.max(initial=0)
    return bool(least >= -_MOST_HALF and most <= _MOST_HALF)


def packing_cost(problem: Problem) -> float:
    """Estimated microseconds of packing the weights at run time; 0 for constant ones."""
    return 0.0 if constant_weights(problem) is not None else problem.machine.dispatch


def moved_bytes(problem: Problem) -> int:
    """Bytes of the tensors and weights, as each is moved once."""
    types, half = (*problem.inputs, *problem.outputs), problem.options.half
    own = sum(storage_bytes(t, Layout.LINEAR, half) for t in types if t is not None)
    return own + operand_bytes(problem)


def operand_bytes(problem: Problem) -> int:
    """Bytes of the tensors that the epilogue reads."""
    half = problem.options.half
    return sum(storage_bytes(t, Layout.LINEAR, half) for t in problem.epilogue.operands)


def input_layouts(problem: Problem) -> tuple[Layout | None, ...]:
    """C4 for x, None for constant weights (the candidate packs them), LINEAR for others."""
    if is_quantized(problem):
        given = zip(problem.inputs[1:], problem.constants[1:], strict=True)
        held = (Layout.LINEAR if t is not None and c is None else None for t, c in given)
        return (Layout.C4, *held)
    weights = None if constant_weights(problem) is not None else Layout.LINEAR
    return (Layout.C4, *(weights if t is not None else None for t in problem.inputs[1:]))


def triple(values: tuple[int, ...], fill: int) -> Triple:
    """``values`` of the last axes, ``fill`` for the axes before them."""
    depth, height, width = (*[fill] * (3 - len(values)), *values)
    return depth, height, width
