"""Windows of convolutions and pools: parameters by axis, shapes of inputs, weights and biases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.weights import WeightSpec
from vknn.formats.windows import Pads, window_extents
from vknn.graph import Value, attributes

#: Axis -> parameters of the pads at its begin and end.
_PADS = {
    "d": ("pad_front", "pad_behind"),
    "h": ("pad_top", "pad_bottom"),
    "w": ("pad_left", "pad_right"),
}


@attributes
class WindowParams(Params):
    """Parameters of windows along ``axes``, as tuples in the order of these."""

    axes: ClassVar[str] = "w"

    def by_axis(self, stem: str) -> tuple[int, ...]:
        """Parameters of all axes: those of ``stem`` "kernel" are kernel_d, kernel_h, kernel_w."""
        return tuple(getattr(self, f"{stem}_{axis}") for axis in self.axes)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Size of a window."""
        return self.by_axis("kernel")

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbouring windows."""
        return self.by_axis("stride")

    @property
    def pads(self) -> Pads:
        """(begin, end) of each axis."""
        names = (_PADS[axis] for axis in self.axes)
        return tuple((getattr(self, begin), getattr(self, end)) for begin, end in names)


@attributes
class ConvWindow1D(WindowParams):
    """Parameters of the windows of convolutions along w."""

    kernel_w: int = param(1)
    dilation_w: int = param(2, 1)
    stride_w: int = param(3, 1)
    pad_left: int = param(4)
    pad_right: int = param(15, like="pad_left")

    @property
    def dilations(self) -> tuple[int, ...]:
        """Distance of neighbouring cells of a window."""
        return self.by_axis("dilation")

    @property
    def extents(self) -> tuple[int, ...]:
        """Cells from the first to the last of a window."""
        return window_extents(self.kernel, self.dilations)


@attributes
class ConvWindow2D(ConvWindow1D):
    """Parameters of the windows of convolutions along h and w; those of h default to those of w."""

    axes = "hw"

    kernel_h: int = param(11, like="kernel_w")
    dilation_h: int = param(12, like="dilation_w")
    stride_h: int = param(13, like="stride_w")
    pad_top: int = param(14, like="pad_left")
    pad_bottom: int = param(16, like="pad_top")


@attributes
class ConvWindow3D(ConvWindow2D):
    """Parameters of the windows of convolutions along d, h and w."""

    axes = "dhw"

    kernel_d: int = param(21, like="kernel_w")
    dilation_d: int = param(22, like="dilation_w")
    stride_d: int = param(23, like="stride_w")
    pad_front: int = param(24, like="pad_left")
    pad_behind: int = param(17, like="pad_front")


@attributes
class WeightedWindow(ConvWindow1D):
    """Parameters of layers that multiply windows by weights: convolutions, also transposed ones."""

    num_output: int = param(0)
    bias_term: int = param(5)
    weight_data_size: int = param(6)
    activation_type: int = param(9)
    activation_params: tuple[float, ...] = param(10, ())

    @property
    def groups(self) -> int:
        """Number of groups of channels."""
        return 1

    @property
    def dynamic(self) -> bool:
        """True where weights are inputs."""
        return False

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape (outputs, inputs of a group, kernel...) of the weights."""
        per_output = self.num_output * math.prod(self.kernel)
        return (self.num_output, self.weight_data_size // per_output, *self.kernel)

    def weight_specs(self) -> list[WeightSpec]:
        """Weight and bias in the order of the file."""
        specs = [WeightSpec("weight", self.weight_shape, tagged=True)]
        return [*specs, WeightSpec("bias", (self.num_output,))] if self.bias_term else specs

    def check_window(self) -> None:
        """Check: Malformed for sizes that no input could suit."""
        require(min(*self.strides, *self.dilations) > 0, "strides and dilations must be positive")
        require(self.groups > 0, f"group {self.groups} must be positive")
        if self.dynamic:
            return
        require(self.num_output > 0, f"num_output {self.num_output} must be positive")
        named = " x ".join(map(str, reversed(self.kernel)))
        require(min(self.kernel) > 0, f"kernel {named} must be positive")
        require(self.num_output % self.groups == 0, "num_output is not divisible by group")
        size, unit = self.weight_data_size, self.num_output * math.prod(self.kernel)
        require(
            size > 0 and size % unit == 0,
            f"weight_data_size {size} is not a multiple of num_output * kernel = {unit}",
        )


@attributes
class GroupParams(Params):
    """Parameter of layers whose channels are in groups."""

    group: int = param(7, 1)

    @property
    def groups(self) -> int:
        """Number of groups of channels."""
        return self.group


def padded_sizes(sizes: Sequence[int], pads: Pads) -> list[int]:
    """``sizes`` with their pads."""
    return [n + sum(pair) for n, pair in zip(sizes, pads, strict=True)]


def check_extents(c: Context[Any], padded: Sequence[int], extents: Sequence[int]) -> None:
    """Check: Malformed where a window is larger than the padded input."""
    c.require(
        all(n >= e for n, e in zip(padded, extents, strict=True)),
        f"the kernel covers {list(extents)} cells: larger than the padded input {list(padded)}",
    )


def as_spatial(c: Context[Any], x: Value, axes: int) -> Value:
    """``x`` as (1, channels, spatial...) with ``axes`` spatial axes, 1 for axes that it lacks.

    A blob of three axes has channels, whatever ``axes`` is.
    """
    c.require(rank(x) <= axes + 1, f"takes at most {axes + 1} axes, not {list(shape(x))}")
    if axes == 3 and rank(x) == 3:
        channels, *plane = shape(x)
        return c.reshape(x, (1, channels, 1, *plane))
    return c.reshape(x, (1,) * (axes + 1 - rank(x)) + x.type.dims)


def check_channels(c: Context[Any], x: Value, expected: int) -> None:
    """Check: Malformed unless ``x`` has as many channels as the weights are for."""
    c.require(
        shape(x)[0] == expected,
        f"its weights are for {expected} input channels, the input has {shape(x)[0]}",
    )


def float_weight(c: Context[Any]) -> np.ndarray:
    """The layer's ``weight`` as float32. Raises Malformed where the file has int8."""
    weight = c.weight("weight")
    c.require(weight.dtype != np.int8, "int8 weights without int8_scale_term")
    return weight


def dynamic_shape(c: Context[Any], axes: int) -> tuple[int, ...]:
    """Shape of weights that are the second input: two axes of channels, then the kernel.

    Axes that the blob lacks are 1, the second axis of channels first.
    """
    c.require(len(c.inputs) >= 2, "dynamic weights are the second input")
    found = shape(c.inputs[1])
    c.require(2 <= len(found) <= axes + 2, f"dynamic weights of shape {list(found)}")
    if axes == 2 and len(found) == 3:
        return found[0], 1, *found[1:]
    return (1,) * (axes + 2 - len(found)) + found


def bias_input(c: Context[Any], outputs: int) -> Value | None:
    """The third input as a vector, where the layer has a bias."""
    if not c.params.bias_term:
        return None
    c.require(len(c.inputs) >= 3, "the bias of dynamic weights is the third input")
    c.require(math.prod(shape(c.inputs[2])) == outputs, "one bias an output is needed")
    return c.reshape(c.inputs[2], (outputs,))
