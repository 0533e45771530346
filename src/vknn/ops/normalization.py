"""Normalisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType
from vknn.ops.checks import (
    arguments,
    fits,
    normal_axis,
    require,
    require_dtype,
    require_float,
    require_vector,
)


@dataclass(frozen=True)
class BatchNormalization(Op):
    """(x - mean) / sqrt(var + epsilon) * scale + bias along axis 1.

    Inputs x [N, C, ...] of rank 2 at least; scale, bias, mean, var [C].
    """

    epsilon: float = 1e-5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, *vectors = arguments(self, inputs, 5)
        require_float(self, x)
        require_dtype(self, x.dtype, *vectors)
        require(x.rank >= 2, f"BatchNormalization: {x} has no channel axis")
        for name, vector in zip(("scale", "bias", "mean", "var"), vectors, strict=True):
            require_vector(self, name, vector, x.shape[1])
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, *vectors = arguments(self, inputs, 5)
        shape = (-1, *[1] * (x.ndim - 2))
        scale, bias, mean, var = (v.astype(np.float64).reshape(shape) for v in vectors)
        with np.errstate(all="ignore"):
            y = (x - mean) * (scale / np.sqrt(var + self.epsilon)) + bias
            return (y.astype(x.dtype),)


@dataclass(frozen=True)
class LayerNormalization(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from ``axis`` on.

    Inputs x, scale (optional), bias (optional); both have the shape of the normalised axes.
    """

    axis: int = -1
    epsilon: float = 1e-5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, scale, bias = arguments(self, inputs, 1, optional=2)
        require_float(self, x)
        require_dtype(self, x.dtype, scale, bias)
        inner = x.shape[normal_axis(self, self.axis, x.rank) :]
        for name, vector in (("scale", scale), ("bias", bias)):
            if vector is None:
                continue
            same = vector.rank == len(inner)
            if not same or not all(map(fits, vector.shape, inner)):
                raise ShapeError(f"LayerNormalization: {name} is {vector}, not of shape {inner}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale, bias = arguments(self, inputs, 1, optional=2)
        axes = tuple(range(normal_axis(self, self.axis, x.ndim), x.ndim))
        with np.errstate(all="ignore"):
            y = x - x.mean(axis=axes, dtype=np.float64, keepdims=True)
            y /= np.sqrt(np.mean(y * y, axis=axes, keepdims=True) + self.epsilon)
            if scale is not None:
                y *= scale
            if bias is not None:
                y += bias
            return (y.astype(x.dtype),)


@dataclass(frozen=True)
class LRN(Op):
    """x * (bias + alpha * s) ** -beta, s the sum of the squares in a window around each element.

    The window reaches from i - before[k] to i + after[k] along axis axes[k]; outside x it is 0.
    """

    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    alpha: float = 1.0
    beta: float = 0.75
    bias: float = 1.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        same = len(self.axes) == len(self.before) == len(self.after)
        require(same, f"LRN: axes, before and after differ in length: {self}")
        require(min((*self.before, *self.after), default=0) >= 0, f"LRN: negative reach: {self}")
        normal = {normal_axis(self, a, x.rank) for a in self.axes}
        require(len(normal) == len(self.axes), f"LRN: axes {self.axes} repeat")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            sums = wide * wide
            for axis, before, after in zip(self.axes, self.before, self.after, strict=True):
                sums = _window_sum(sums, axis, before, after)
            return ((wide * (self.bias + self.alpha * sums) ** -self.beta).astype(x.dtype),)


def _window_sum(x: np.ndarray, axis: int, before: int, after: int) -> np.ndarray:
    x = np.moveaxis(x, axis, 0)
    size, total = len(x), np.zeros_like(x)
    for shift in range(-min(before, size), min(after, size) + 1):
        low, high = max(0, -shift), min(size, size - shift)
        if high > low:
            total[low:high] += x[low + shift : high + shift]
    return np.moveaxis(total, 0, axis)
