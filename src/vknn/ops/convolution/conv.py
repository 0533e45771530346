"""Convolution over 1 to 3 spatial axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from vknn import run_limits
from vknn.graph import DType, TensorType, attributes
from vknn.ops.common.blocks import blocks, index_of, places, products
from vknn.ops.common.checks import arguments, require_dtype
from vknn.ops.common.windows import padded, volume, window_output, windows
from vknn.ops.convolution.base import ConvolutionBase, FloatConvolution


@attributes
class Convolution(ConvolutionBase):
    """A convolution, not transposed: output shape and sums."""

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        self._check(x, w, w.dims[1] * self.group if w.rank > 1 else 0)
        maps, _, *kernel = w.dims
        spatial = window_output(self, x.shape[2:], kernel, self.strides, self.pads, self.dilations)
        return (x.shape[0], maps, *spatial)

    def _parts(
        self, x: np.ndarray, w: np.ndarray, zero: int = 0
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        if x.dtype.kind != "f" and not np.iinfo(x.dtype).min <= zero <= np.iinfo(x.dtype).max:
            x, zero = x.astype(np.float64) - zero, 0  # padding has to be representable
        kernel = w.shape[2:]
        x, strides, dilations = padded(x, kernel, self.strides, self.pads, self.dilations, zero)
        view = windows(x, kernel, strides, dilations)
        parts = _depthwise if w.shape[1] == 1 and self.group > 1 else _grouped
        return parts(view, w, self.group, zero)


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

    No kernel computes it that rounds on the way, such as Winograd's. ``weight_bits``: of integers
    that constant w are, times ``weight_unit`` (a power of two), x being finite then; 0 says nothing
    of them.
    """

    exact_sums: ClassVar[bool] = True

    weight_bits: int = 0
    weight_unit: float = 1.0


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
        whole = np.dtype(np.int32)
        return (self._finished_sums(x, w, whole, lambda sums, _: sums.astype(np.int64)),)


def _lengths(part: Sequence[slice]) -> list[int]:
    return [each.stop - each.start for each in part]


def _grouped(
    view: Any, w: np.ndarray, group: int, zero: int
) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Windows [N, C, out..., kernel...] times w, by a product a group and part of the places."""
    axes = (view.ndim - 2) // 2
    n, c, *out = view.shape[: 2 + axes]
    maps, depth = w.shape[0], volume(w.shape[1:])
    matrix = w.reshape(group, maps // group, depth)
    if w.dtype.kind == "f":
        matrix = matrix.astype(np.float64)
    # [n, group, channel, out..., kernel...] -> [n, group, channel, kernel..., out...]
    split = view.reshape(n, group, c // group, *view.shape[2:]) if group > 1 else view[:, None]
    spatial, taps = range(3, 3 + axes), range(3 + axes, 3 + 2 * axes)
    split = split.transpose(0, 1, 2, *taps, *spatial)
    for image in range(n):
        for part in places(out, max(8 * group * depth, _sum_bytes(view) * maps)):
            columns = split[index_of(image, ..., *part)].astype(np.float64, order="C")
            if zero:
                columns -= zero
            product = products(matrix, columns.reshape(group, depth, volume(_lengths(part))))
            at = (slice(image, image + 1), slice(0, maps), *part)
            yield at, product.reshape(1, maps, *_lengths(part))


def _sum_bytes(x: np.ndarray) -> int:
    """Bytes that a sum takes: float64, of integers with what it is requantized through."""
    return 8 if x.dtype.kind == "f" else 64


def _depthwise(
    view: Any, w: np.ndarray, group: int, zero: int
) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Sums over taps for one input channel a group, faster than thin matrix products."""
    axes = (view.ndim - 2) // 2
    n, _, *out = view.shape[: 2 + axes]
    kernel, each = w.shape[2:], w.shape[0] // group
    factors = w.reshape(group, each, *kernel)
    for image in range(n):
        for groups in blocks(group, _sum_bytes(view) * each * volume(out)):
            for part in places(out, _sum_bytes(view) * each):
                x = view[index_of(image, groups, *part)]
                y = np.zeros((*x.shape[:1], each, *_lengths(part)))
                for tap in np.ndindex(*kernel):
                    run_limits.check()
                    factor = factors[index_of(groups, ..., *tap)].astype(np.float64)
                    factor = factor.reshape(len(x), each, *[1] * axes)
                    y += (x[index_of(..., *tap)].astype(np.float64) - zero)[:, None] * factor
                maps = slice(groups.start * each, groups.stop * each)
                at = (slice(image, image + 1), maps, *part)
                yield at, y.reshape(1, maps.stop - maps.start, *_lengths(part))
