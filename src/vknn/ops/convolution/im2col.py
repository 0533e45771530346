"""Im2Col and Col2Im: windows as columns of a matrix, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import index_of
from vknn.ops.common.checks import arguments, fits, require, wide
from vknn.ops.common.windows import check_window, on_target, padded, window_output, windows


@attributes
class _Columns(Op):
    """Windows over two spatial axes; ``pads`` are the begins, then the ends."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def _check(self) -> None:
        check_window(
            self,
            2,
            kernel=self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
        )

    def places(self, spatial: Sequence[int | None]) -> tuple[int | None, ...]:
        """Number of windows along each axis of an image."""
        shape = tuple(spatial)
        return window_output(self, shape, self.kernel, self.strides, self.pads, self.dilations)


@attributes
class Im2Col(_Columns):
    """Windows of x [N, C, H, W] as columns [N, C * kernel, windows], all row-major.

    Padding is ``value``.
    """

    value: float = 0.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        self._check()
        require(x.rank == 4, f"Im2Col: {x} should be [N, C, H, W]")
        count = _product(self.places(x.shape[2:]))
        return (x.with_shape((x.shape[0], _product((x.shape[1], *self.kernel)), count)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        x, strides, dilations = padded(
            x, self.kernel, self.strides, self.pads, self.dilations, self.value
        )
        view = windows(x, self.kernel, strides, dilations)
        n, c, rows, columns = view.shape[:4]
        shape = (n, c * math.prod(self.kernel), rows * columns)
        return (view.transpose(0, 1, 4, 5, 2, 3).reshape(shape),)


@attributes
class Col2Im(_Columns):
    """Sums of the columns x [N, C * kernel, windows] at their places in an image [N, C, *image].

    x: floats, or int64, whose sums wrap around, on the host.
    """

    image: tuple[int, int] = (1, 1)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype.is_float or x.dtype is DType.INT64, f"Col2Im sums floats or int64, not {x}")
        self._check()
        require(len(self.image) == 2 and min(self.image) >= 1, f"Col2Im: image {self.image}")
        count, parts = _product(self.places(self.image)), math.prod(self.kernel)
        if x.rank != 3 or not fits(x.shape[2], count):
            raise ShapeError(f"Col2Im: {x} should be [N, C * {parts}, {count}] for {self.image}")
        channels = x.shape[1]
        require(channels is None or channels % parts == 0, f"Col2Im: {channels} rows of {parts}")
        return (x.with_shape((x.shape[0], channels and channels // parts, *self.image)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        rows, columns = (int(p or 0) for p in self.places(self.image))
        channels = x.shape[1] // math.prod(self.kernel)
        parts = wide(x).reshape(x.shape[0], channels, *self.kernel, rows, columns)
        y = np.zeros((*parts.shape[:2], *self.image), parts.dtype)
        for tap in np.ndindex(*self.kernel):
            run_limits.check()
            (down, to_rows), (across, to_columns) = (
                on_target(t * d - pad, stride, count, size)
                for t, d, pad, stride, count, size in zip(
                    tap, self.dilations, self.pads[:2], self.strides, (rows, columns), self.image,
                    strict=True,
                )
            )  # fmt: skip
            y[:, :, to_rows, to_columns] += parts[index_of(..., *tap, slice(None), slice(None))][
                :, :, down, across
            ]
        return (y.astype(x.dtype),)


def _product(dims: Sequence[int | None]) -> int | None:
    known = [d for d in dims if d is not None]
    return math.prod(known) if len(known) == len(dims) else None
