"""Base classes of convolutions and transposed convolutions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
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
class ConvolutionBase(Op):
    """Attributes and checks of convolutions over 1 to 3 spatial axes, transposed or not."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1

    @abstractmethod
    def _shape(self, x: TensorType, w: TensorType) -> tuple[int | None, ...]:
        """The shape of the output; raises ShapeError where input and weight do not fit."""

    @abstractmethod
    def _parts(
        self, x: np.ndarray, w: np.ndarray, zero: int = 0
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        """The sums of (x - zero) * w, part by part: where in the result, and float64 without bias,
        exact for 8-bit integers."""

    def _finished_sums(
        self,
        x: np.ndarray,
        w: np.ndarray,
        dtype: np.dtype[Any],
        finished: Callable[[np.ndarray, slice], np.ndarray],
        zero: int = 0,
    ) -> np.ndarray:
        """The result, of what ``finished`` makes of sums and the channels that they are."""
        y: Any = np.empty(self._shape(TensorType.of(x), TensorType.of(w)), dtype)  # type: ignore[type-var]
        for at, sums in self._parts(x, w, zero):
            y[at] = finished(sums, at[1])
        return np.asarray(y)

    def _check(self, x: TensorType, w: TensorType, channels: int) -> None:
        """Raises ShapeError unless w suits the attributes and x, of ``channels`` channels."""
        name, axes = self.type_name, len(self.strides)
        require(1 <= axes <= 3, f"{name}: {axes} spatial axes, not 1 to 3")
        check_window(self, axes, strides=self.strides, pads=self.pads, dilations=self.dilations)
        for what, type_ in (("input", x), ("weight", w)):
            require(type_.rank == axes + 2, f"{name}: {what} {type_} should have rank {axes + 2}")
        require(min(w.dims[2:]) >= 1, f"{name}: empty kernel in weight {w}")
        group = self.group
        if group < 1 or w.dims[0] % group or not fits(x.shape[1], channels):
            raise ShapeError(
                f"{name}: input {x} has not the channels that weight {w} of {group} group(s) takes"
            )


@attributes
class FloatConvolution(ConvolutionBase):
    """A convolution of floats: inputs x, w and bias (optional), sums in float64."""

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
        shape = (-1, *[1] * (x.ndim - 2))

        def biased(sums: np.ndarray, channels: slice) -> np.ndarray:
            return sums if bias is None else sums + bias[channels].astype(np.float64).reshape(shape)

        with np.errstate(all="ignore"):
            return (self._finished_sums(x, w, x.dtype, biased),)
