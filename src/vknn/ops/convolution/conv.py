"""Convolution over 1 to 3 spatial axes."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, TensorType, attributes
from vknn.ops.common.checks import arguments, require_dtype
from vknn.ops.common.windows import blocks, padded, volume, window_output, windows
from vknn.ops.convolution.base import ConvolutionBase, FloatConvolution


@attributes
class Convolution(ConvolutionBase):
    """A convolution, not transposed: output shape and sums."""

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        self._check(x, w, w.dims[1] * self.group if w.rank > 1 else 0)
        maps, _, *kernel = w.dims
        spatial = window_output(self, x.shape[2:], kernel, self.strides, self.pads, self.dilations)
        return (x.shape[0], maps, *spatial)

    def _sums(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        x, kernel = x.astype(np.float64), w.shape[2:]
        w = w.astype(np.float64)
        x, strides, dilations = padded(x, kernel, self.strides, self.pads, self.dilations, 0.0)
        view = windows(x, kernel, strides, dilations)
        if w.shape[1] == 1 and self.group > 1:
            return _depthwise(view, w, self.group)
        return _grouped(view, w, self.group)


@attributes
class Conv(FloatConvolution, Convolution):
    """y[n, m, p] = bias[m] + sum over c, k of x[n, c, p*stride + k*dilation - pad] * w[m, c, k].

    Inputs x [N, C, spatial...], w [M, C/group, kernel...], bias [M] (optional); 1 to 3 spatial
    axes. ``pads`` are the begins of all spatial axes, then the ends; padding is 0. Group g of the
    output channels reads group g of the input channels. Sums are kept in float64. Padding is
    multiplied too: next to it an infinity in w gives NaN.
    """


@attributes
class ExactConv(Conv):
    """Conv of integers, or of integers times a power of two, whose sums are exact in float32.

    No kernel computes it that rounds on the way, such as Winograd's.
    """


@attributes
class ConvInteger(Convolution):
    """Convolution of int8 x and int8 w with exact sums in int32.

    Inputs and attributes as those of Conv, without bias; zero points are 0.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w = arguments(self, inputs, 2)
        require_dtype(self, DType.INT8, x, w)
        return (TensorType(self._shape(x, w), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, w = arguments(self, inputs, 2)
        return (self._sums(x, w).astype(np.int64).astype(np.int32),)


def _grouped(view: np.ndarray, w: np.ndarray, group: int) -> np.ndarray:
    """Windows [N, C, out..., kernel...] times w, by a matrix product a group and block of rows."""
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
    """Sums over taps for one input channel a group, faster than thin matrix products."""
    axes = (view.ndim - 2) // 2
    n, _, *out = view.shape[: 2 + axes]
    kernel, each = w.shape[2:], w.shape[0] // group
    factors = w.reshape(group, each, *kernel)
    y = np.zeros((n, group, each, *out))
    for tap in np.ndindex(*kernel):
        factor = factors[(..., *tap)].reshape(group, each, *[1] * axes)
        y += view[(..., *tap)][:, :, None] * factor
    return y.reshape(n, group * each, *out)
