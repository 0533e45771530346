"""Transposed convolution over 1 to 3 spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import TensorType, attributes
from vknn.ops.common.blocks import blocks, index_of, places, products
from vknn.ops.common.checks import require
from vknn.ops.common.windows import on_target
from vknn.ops.convolution.base import ConvolutionBase, FloatConvolution


@attributes
class Transposition(ConvolutionBase):
    """A transposed convolution: output padding, output shape and sums."""

    output_padding: tuple[int, ...] = ()

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        self._check(x, w, w.dims[0] if w.dims else 0)
        axes, name = len(self.strides), self.type_name
        require(
            len(self.extra) == axes and min(self.extra) >= 0,
            f"{name}: output_padding {self.output_padding} should be {axes} values >= 0",
        )
        require(min(w.dims) >= 1, f"{name}: empty weight {w}")
        spatial = tuple(
            None if size is None else self._size(axis, size, kernel)
            for axis, (size, kernel) in enumerate(zip(x.shape[2:], w.dims[2:], strict=True))
        )
        return (x.shape[0], w.dims[1] * self.group, *spatial)

    def _parts(
        self, x: np.ndarray, w: np.ndarray, zero: int = 0
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        n, c, *spatial = x.shape
        each, kernel = w.shape[1], w.shape[2:]
        kept = [self._size(a, s, k) for a, (s, k) in enumerate(zip(spatial, kernel, strict=True))]
        matrices = w.reshape(self.group, c // self.group, *w.shape[1:])
        matrices = matrices.astype(np.float64) if w.dtype.kind == "f" else matrices
        columns = x.reshape(n, self.group, c // self.group, *spatial)
        size = math.prod(kept)
        for image in range(n):
            for groups in blocks(self.group, 16 * each * size):
                one = groups.stop - groups.start == 1
                for maps in blocks(each, 16 * size) if one else [slice(0, each)]:
                    sums = self._scatter(
                        columns[image, groups], matrices[groups, :, maps], kept, zero
                    )
                    first = groups.start * each + maps.start
                    channels = slice(first, (groups.stop - 1) * each + maps.stop)
                    yield (slice(image, image + 1), channels), sums

    @property
    def extra(self) -> tuple[int, ...]:
        """``output_padding``, zeros where it is empty."""
        return self.output_padding or (0,) * len(self.strides)

    def _size(self, axis: int, size: int, kernel: int) -> int:
        axes = len(self.strides)
        full = self._full(axis, size, kernel)
        cut = self.pads[axis] + self.pads[axis + axes]
        if size < 1 or full <= cut:
            raise ShapeError(
                f"{self.type_name}: pads cut {cut} of the {full} elements along spatial axis {axis}"
            )
        return full - cut

    def _full(self, axis: int, size: int, kernel: int) -> int:
        extent = (kernel - 1) * self.dilations[axis] + 1
        return (size - 1) * self.strides[axis] + extent + self.extra[axis]

    def _scatter(self, x: Any, w: np.ndarray, kept: list[int], zero: int) -> np.ndarray:
        """Each tap's products added at its places, those that are not cut off with the pads:
        [1, channels, ``kept``], for x [groups, C, spatial...] and w [groups, C, M, kernel...]."""
        groups, c, *spatial = x.shape
        y: Any = np.zeros((groups, w.shape[2], *kept))
        for part in places(spatial, 8 * groups * max(c, w.shape[2])):
            moved = x[index_of(..., *part)].astype(np.float64) - zero
            columns = moved.reshape(groups, c, -1)
            for tap in np.ndindex(*w.shape[3:]):
                run_limits.check()
                at = [
                    self._target(a, *pair, kept[a])
                    for a, pair in enumerate(zip(tap, part, strict=True))
                ]
                source, target = zip(*at, strict=True)
                product = products(w[index_of(..., *tap)].swapaxes(1, 2), columns)
                product = product.reshape(groups, -1, *moved.shape[2:])
                y[index_of(..., *target)] += product[index_of(..., *source)]
        return np.asarray(y.reshape(1, -1, *kept))

    def _target(self, axis: int, tap: int, part: slice, size: int) -> tuple[slice, slice]:
        """Which elements of a part of x a tap moves into the result, and where to."""
        stride = self.strides[axis]
        offset = tap * self.dilations[axis] - self.pads[axis] + part.start * stride
        return on_target(offset, stride, part.stop - part.start, size)


@attributes
class ConvTranspose(FloatConvolution, Transposition):
    """y[n, m, i*stride + k*dilation - pad] += x[n, c, i] * w[c, m, k], starting from bias[m].

    Inputs x [N, C, spatial...], w [C, M/group, kernel...], bias [M] (optional); 1 to 3 spatial
    axes. ``pads`` (the begins of all spatial axes, then the ends) are cut off the full result,
    ``output_padding`` (empty: none) lengthens it at the ends. Group g of the output channels reads
    group g of the input channels. Sums are kept in float64. An infinity or NaN in x stays where the
    formula puts it; one in w may reach every element of its output channel where
    each channel is a group of its own.
    """
