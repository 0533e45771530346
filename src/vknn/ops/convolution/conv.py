"""Convolution over 1 to 3 spatial axes."""

from __future__ import annotations

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Fusion, Op, TensorType, attributes
from vknn.ops.common.checks import (
    arguments,
    fits,
    require,
    require_dtype,
    require_float,
    require_vector,
)
from vknn.ops.common.windows import (
    blocks,
    check_window,
    pad_spatial,
    volume,
    window_output,
    windows,
)


@attributes
class Convolution(Op):
    """The attributes, shapes and sums that all convolutions share."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        name, axes = type(self).__name__, len(self.strides)
        require(1 <= axes <= 3, f"{name}: {axes} spatial axes, not 1 to 3")
        check_window(self, axes, strides=self.strides, pads=self.pads, dilations=self.dilations)
        for what, type_ in (("input", x), ("weight", w)):
            if type_.rank != axes + 2:
                raise ShapeError(f"{name}: {what} {type_} should have rank {axes + 2}")
        maps, _, *kernel = w.dims
        if min(kernel) < 1:
            raise ShapeError(f"{name}: empty kernel in weight {w}")
        group = self.group
        if group < 1 or maps % group or not fits(x.shape[1], w.dims[1] * group):
            raise ShapeError(
                f"{name}: input {x} has not the channels that weight {w} of {group} group(s) takes"
            )
        spatial = window_output(self, x.shape[2:], kernel, self.strides, self.pads, self.dilations)
        return (x.shape[0], maps, *spatial)

    def _sums(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The convolution in float64, without bias: exact for 8-bit integers."""
        x = pad_spatial(x.astype(np.float64), self.pads, 0.0)
        w = w.astype(np.float64)
        view = windows(x, w.shape[2:], self.strides, self.dilations)
        if w.shape[1] == 1 and self.group > 1:
            return _depthwise(view, w, self.group)
        return _grouped(view, w, self.group)


@attributes
class Conv(Convolution):
    """y[n, m, p] = bias[m] + sum over c, k of x[n, c, p*stride + k*dilation - pad] * w[m, c, k].

    Inputs x [N, C, spatial...], w [M, C/group, kernel...], bias [M] (optional); 1 to 3 spatial
    axes. ``pads`` are the begins of all spatial axes, then the ends; padding is 0. Group g of the
    output channels reads group g of the input channels. Sums are kept in float64.
    """

    fusion = Fusion(operands=1, channel_axis=1)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, bias = arguments(self, inputs, 2, optional=1)
        require_float(self, x)
        require_dtype(self, x.dtype, w, bias)
        shape = self._shape(x, w)
        require_vector(self, "bias", bias, shape[1])
        return (x.with_shape(shape),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, w, bias = arguments(self, inputs, 2, optional=1)
        with np.errstate(all="ignore"):
            y = self._sums(x, w)
            if bias is not None:
                y += bias.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
            return (y.astype(x.dtype),)


@attributes
class ExactConv(Conv):
    """Conv of whole numbers, or of multiples of powers of two, whose sums float32 holds exactly.

    Kernels that round on the way are left out.
    """


@attributes
class ConvInteger(Convolution):
    """The convolution of int8 x and int8 w, exact, as int32.

    Inputs and attributes as those of Conv, without bias; zero points are 0.
    """

    fusion = None

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w = arguments(self, inputs, 2)
        require_dtype(self, DType.INT8, x, w)
        return (TensorType(self._shape(x, w), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, w = arguments(self, inputs, 2)
        return (self._sums(x, w).astype(np.int64).astype(np.int32),)


def _grouped(view: np.ndarray, w: np.ndarray, group: int) -> np.ndarray:
    """Windows [N, C, out..., kernel...] times w: a matrix product a group, in blocks of rows."""
    axes = (view.ndim - 2) // 2
    n, c, *out = view.shape[: 2 + axes]
    maps, depth = w.shape[0], volume(w.shape[1:])
    matrix = w.reshape(group, maps // group, depth)
    y = np.empty((n, maps, *out))
    # [n, group, channel, out..., kernel...] -> [n, group, channel, kernel..., out...]
    split = view.reshape(n, group, c // group, *view.shape[2:]) if group > 1 else view[:, None]
    spatial, taps = range(3, 3 + axes), range(3 + axes, 3 + 2 * axes)
    split = split.transpose(0, 1, 2, *taps, *spatial)
    for image in range(n):
        for rows in blocks(out[0], 8 * group * depth * volume(out[1:])):
            columns = np.moveaxis(split[image], 2 + axes, 0)[rows]
            columns = np.moveaxis(columns, 0, 2 + axes)
            product = matrix @ columns.reshape(group, depth, -1)
            y[image, :, rows] = product.reshape(maps, -1, *out[1:])
    return y


def _depthwise(view: np.ndarray, w: np.ndarray, group: int) -> np.ndarray:
    """One input channel a group: a sum over the taps is faster than thin matrix products."""
    axes = (view.ndim - 2) // 2
    n, _, *out = view.shape[: 2 + axes]
    kernel, each = w.shape[2:], w.shape[0] // group
    factors = w.reshape(group, each, *kernel)
    y = np.zeros((n, group, each, *out))
    for tap in np.ndindex(*kernel):
        factor = factors[(..., *tap)].reshape(group, each, *[1] * axes)
        y += view[(..., *tap)][:, :, None] * factor
    return y.reshape(n, group * each, *out)
