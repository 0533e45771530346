"""Transposed convolution over 1 to 3 spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Fusion, Op, TensorType, attributes
from vknn.ops.common.checks import (
    arguments,
    fits,
    require,
    require_dtype,
    require_float,
    require_vector,
)
from vknn.ops.common.windows import check_window


@attributes
class Transposition(Op):
    """The attributes, shapes and sums that all transposed convolutions share."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1
    output_padding: tuple[int, ...] = ()

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        self._check(x, w)
        spatial = tuple(
            None if size is None else self._size(axis, size, kernel)
            for axis, (size, kernel) in enumerate(zip(x.shape[2:], w.dims[2:], strict=True))
        )
        return (x.shape[0], w.dims[1] * self.group, *spatial)

    def _sums(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The result in float64, without bias: exact for integers of few bits."""
        return self._cut(self._scatter(x.astype(np.float64), w.astype(np.float64)))

    @property
    def extra(self) -> tuple[int, ...]:
        """``output_padding``, zeros where it is empty."""
        return self.output_padding or (0,) * len(self.strides)

    def _check(self, x: TensorType, w: TensorType) -> None:
        axes, group, name = len(self.strides), self.group, self.type_name
        require(1 <= axes <= 3, f"{name}: {axes} spatial axes, not 1 to 3")
        check_window(self, axes, strides=self.strides, pads=self.pads, dilations=self.dilations)
        require(
            len(self.extra) == axes and min(self.extra) >= 0,
            f"{name}: output_padding {self.output_padding} should be {axes} values >= 0",
        )
        for what, type_ in (("input", x), ("weight", w)):
            require(type_.rank == axes + 2, f"{name}: {what} {type_} has not rank {axes + 2}")
        require(min(w.dims) >= 1, f"{name}: empty weight {w}")
        if group < 1 or w.dims[0] % group or not fits(x.shape[1], w.dims[0]):
            raise ShapeError(
                f"{name}: input {x} has not the channels that weight {w} of {group} group(s) takes"
            )

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

    def _scatter(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The full result: each tap's products added where they belong."""
        n, c, *spatial = x.shape
        kernel = w.shape[2:]
        full = [self._full(a, s, k) for a, (s, k) in enumerate(zip(spatial, kernel, strict=True))]
        y = np.zeros((n, self.group, w.shape[1], *full))
        columns = x.reshape(n, self.group, c // self.group, -1)
        matrices = w.reshape(self.group, c // self.group, w.shape[1], *kernel)
        for tap in np.ndindex(*kernel):
            product = matrices[(..., *tap)].swapaxes(1, 2) @ columns
            target: list[Any] = [
                slice(t * d, t * d + (size - 1) * s + 1, s)
                for t, d, s, size in zip(tap, self.dilations, self.strides, spatial, strict=True)
            ]
            y[(..., *target)] += product.reshape(n, self.group, -1, *spatial)
        return y.reshape(n, -1, *full)

    def _cut(self, full: np.ndarray) -> np.ndarray:
        axes = full.ndim - 2
        keep: list[Any] = [
            slice(self.pads[a], full.shape[2 + a] - self.pads[a + axes]) for a in range(axes)
        ]
        return full[(..., *keep)]


@attributes
class ConvTranspose(Transposition):
    """y[n, m, i*stride + k*dilation - pad] += x[n, c, i] * w[c, m, k], starting from bias[m].

    Inputs x [N, C, spatial...], w [C, M/group, kernel...], bias [M] (optional); 1 to 3 spatial
    axes. ``pads`` (the begins of all spatial axes, then the ends) are cut off the full result,
    ``output_padding`` (empty: none) lengthens it at the ends. Group g of the output channels reads
    group g of the input channels. Sums are kept in float64.
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
                y = y + bias.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
            return (y.astype(x.dtype),)
