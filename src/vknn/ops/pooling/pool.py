"""MaxPool, AveragePool, global and adaptive pooling over the spatial axes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Fusion, Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks, index_of
from vknn.ops.common.checks import arguments, require, require_float
from vknn.ops.common.windows import check_window, reduce_windows, volume, window_output

#: Integers of which AveragePool takes means: sums of them stay exact.
SUMMED = (DType.INT8, DType.UINT8, DType.INT16)


def _spatial(op: Op, x: TensorType, axes: int | None = None) -> None:
    """Raises ShapeError unless ``x`` is [N, C, spatial...] (with ``axes`` spatial axes)."""
    name = type(op).__name__
    require(x.rank >= 3, f"{name}: {x} has no spatial axes")
    if axes is not None:
        require(x.rank == axes + 2, f"{name}: {x} should have {axes} spatial axes")


@attributes
class MaxPool(Op):
    """The maximum of each window; padding is the lowest finite number of the dtype.

    x [N, C, spatial...]; ``pads`` are the begins of all spatial axes, then the ends.
    """

    fusion = Fusion(operands=1, channel_axis=1)

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...] | None = None

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _spatial(self, x, len(self.kernel))
        check_window(
            self,
            len(self.kernel),
            kernel=self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
        )
        dilations = self.dilations or (1,) * len(self.kernel)
        spatial = window_output(self, x.shape[2:], self.kernel, self.strides, self.pads, dilations)
        return (x.with_shape((*x.shape[:2], *spatial)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        lowest = np.finfo(x.dtype).min if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        dilations = self.dilations or (1,) * len(self.kernel)
        y = reduce_windows(x, np.maximum, self.kernel, self.strides, self.pads, dilations, lowest)
        return (np.ascontiguousarray(y),)


@attributes
class AveragePool(Op):
    """The sum of each window (padding is 0) over the number of its elements.

    x [N, C, spatial...]; ``pads`` are the begins of all spatial axes, then the ends.
    ``count_include_pad``: divides by the size of the kernel; otherwise by the number of elements
    that lie within x, which gives NaN for a window wholly in the padding. Means of integers are
    rounded, halves away from zero (0 where there are no elements).
    """

    fusion = Fusion(operands=1, channel_axis=1)

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    count_include_pad: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        name, axes = self.type_name, len(self.kernel)
        require(x.dtype.is_float or x.dtype in SUMMED, f"{name}: takes no {x}")
        _spatial(self, x, axes)
        check_window(self, axes, kernel=self.kernel, strides=self.strides, pads=self.pads)
        spatial = window_output(
            self, x.shape[2:], self.kernel, self.strides, self.pads, (1,) * axes
        )
        return (x.with_shape((*x.shape[:2], *spatial)),)

    @in_blocks(whole=lambda _, rank: range(2, rank))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            y = self._sums(x.astype(np.float64))
            if self.count_include_pad:
                count = np.full((), volume(self.kernel), np.float64)
            else:
                count = self._sums(np.ones((1, 1, *x.shape[2:])))
            if x.dtype.kind != "f":
                whole = np.floor(np.abs(y) + np.floor(count / 2)) // np.maximum(count, 1)
                return (np.copysign(whole, y).astype(x.dtype),)
            return ((y / count).astype(x.dtype),)

    def _sums(self, x: np.ndarray) -> np.ndarray:
        ones = (1,) * len(self.kernel)
        y = reduce_windows(x, np.add, self.kernel, self.strides, self.pads, ones, 0.0)
        return np.array(y)  # a 1x1 kernel gives a view of the input


class _GlobalPool(Op):
    """Base of global pooling: one value a channel; the spatial axes stay, with size 1."""

    fusion = Fusion(operands=1, channel_axis=1)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        _spatial(self, x)
        require(0 not in x.shape[2:], f"{type(self).__name__}: {x} has an empty spatial axis")
        return (x.with_shape((*x.shape[:2], *[1] * (x.rank - 2))),)


@attributes
class GlobalAveragePool(_GlobalPool):
    """The mean over all spatial axes, which stay with size 1."""

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        axes = tuple(range(2, x.ndim))
        with np.errstate(all="ignore"):
            return (x.mean(axis=axes, dtype=np.float64, keepdims=True).astype(x.dtype),)


@attributes
class GlobalMaxPool(_GlobalPool):
    """The maximum over all spatial axes, which stay with size 1."""

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


@attributes
class _AdaptivePool(Op):
    """Base of pooling to a given size; its subclasses say where the windows are."""

    fusion = Fusion(operands=1, channel_axis=1)

    output_size: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        _spatial(self, x, len(self.output_size))
        name = type(self).__name__
        require(min(self.output_size) >= 1, f"{name}: output_size {self.output_size} below 1")
        require(0 not in x.shape[2:], f"{name}: {x} has an empty spatial axis")
        return (x.with_shape((*x.shape[:2], *self.output_size)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        y = x
        with np.errstate(all="ignore"):
            for axis, count in enumerate(self.output_size, start=2):
                size, lead = x.shape[axis], (slice(None),) * axis
                ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
                parts = []
                for a, b in ends:
                    run_limits.check()
                    parts.append(self._pool(y[index_of(*lead, slice(a, b))], axis))
                y = np.concatenate(parts, axis=axis)
        return (y.astype(x.dtype),)

    @abstractmethod
    def _pool(self, part: np.ndarray, axis: int) -> np.ndarray:
        """Pools one window along one axis, keeping the axis."""


@attributes
class AdaptiveAveragePool(_AdaptivePool):
    """The mean of each window; window i of an axis is floor(i*in/out) .. ceil((i+1)*in/out)."""

    def _pool(self, part: np.ndarray, axis: int) -> np.ndarray:
        return part.mean(axis=axis, dtype=np.float64, keepdims=True)


@attributes
class AdaptiveMaxPool(_AdaptivePool):
    """The maximum of each window; window i of an axis is floor(i*in/out) .. ceil((i+1)*in/out)."""

    def _pool(self, part: np.ndarray, axis: int) -> np.ndarray:
        return part.max(axis=axis, keepdims=True)
