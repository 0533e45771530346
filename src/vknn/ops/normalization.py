"""Normalisations: BatchNormalization, LayerNormalization, LRN and others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks, in_blocks
from vknn.ops.common.checks import (
    arguments,
    fits,
    normal_axis,
    require,
    require_dtype,
    require_float,
    require_vector,
)
from vknn.ops.reduction import normal_axes


@attributes
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

    @in_blocks(whole=lambda *_: (1,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, *vectors = arguments(self, inputs, 5)
        shape = (-1, *[1] * (x.ndim - 2))
        scale, bias, mean, var = (v.astype(np.float64).reshape(shape) for v in vectors)
        with np.errstate(all="ignore"):
            y = (x - mean) * (scale / np.sqrt(var + self.epsilon)) + bias
            return (y.astype(x.dtype),)


@attributes
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

    @in_blocks(whole=lambda op, rank: range(op.axis % rank, rank), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale, bias = arguments(self, inputs, 1, optional=2)
        axes = tuple(range(normal_axis(self, self.axis, x.ndim), x.ndim))
        if not x.size:  # nothing has no mean
            return (x.copy(),)
        with np.errstate(all="ignore"):
            y = x - x.mean(axis=axes, dtype=np.float64, keepdims=True)
            y /= np.sqrt(np.mean(y * y, axis=axes, keepdims=True) + self.epsilon)
            if scale is not None:
                y *= scale
            if bias is not None:
                y += bias
            return (y.astype(x.dtype),)


@attributes
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

    @in_blocks(whole=lambda op, _: op.axes)
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
        run_limits.check()
        low, high = max(0, -shift), min(size, size - shift)
        if high > low:
            total[low:high] += x[low + shift : high + shift]
    return np.moveaxis(total, 0, axis)


#: Ways of an epsilon to keep the root of a mean square (or a sum of squares) from being zero.
EPSILON_MODES = ("add", "add_root", "max", "max_root")


def root_with(epsilon: float, mode: str, squares: np.ndarray) -> np.ndarray:
    """Divisor of a normalisation: sqrt(s + e), sqrt(s) + e, sqrt(max(s, e)) or max(sqrt(s), e)."""
    if mode == "add":
        return np.sqrt(squares + epsilon)
    if mode == "add_root":
        return np.sqrt(squares) + epsilon
    if mode == "max":
        return np.sqrt(np.maximum(squares, epsilon))
    return np.maximum(np.sqrt(squares), epsilon)


def _check_mode(op: Op, mode: str) -> None:
    name = type(op).__name__
    require(mode in EPSILON_MODES, f"{name}: epsilon_mode {mode!r} is none of {EPSILON_MODES}")


def _grouped(
    op: Op, inputs: tuple[np.ndarray | None, ...], groups: int, epsilon: float
) -> np.ndarray:
    """x normalised over its spatial axes and each of ``groups`` runs of channels, then affine."""
    x, scale, bias = arguments(op, inputs, 1, optional=2)
    if not x.size:
        return x.copy()
    each = x.shape[1] // groups
    rows = x.reshape(x.shape[0], groups, each, math.prod(x.shape[2:]))
    affine = [None if v is None else v.reshape(groups, each, 1) for v in (scale, bias)]
    y = np.empty(rows.shape, x.dtype)
    for image in range(len(rows)):
        for part in blocks(groups, 16 * math.prod(rows.shape[2:])):
            scale, bias = (None if v is None else v[part] for v in affine)
            y[image, part] = _normalized(rows[image, part], scale, bias, epsilon)
    return y.reshape(x.shape)


def _normalized(rows: np.ndarray, scale: Any, bias: Any, epsilon: float) -> np.ndarray:
    """Groups [groups, channels, places], each normalised, then affine; in float64."""
    with np.errstate(all="ignore"):
        y = rows.astype(np.float64)
        y -= y.mean(axis=(1, 2), keepdims=True)
        y /= np.sqrt(np.mean(y * y, axis=(1, 2), keepdims=True) + epsilon)
        if scale is not None:
            y *= scale
        if bias is not None:
            y += bias
        return y


def _infer_grouped(op: Op, inputs: tuple[TensorType | None, ...]) -> TensorType:
    x, scale, bias = arguments(op, inputs, 1, optional=2)
    require_float(op, x)
    require_dtype(op, x.dtype, scale, bias)
    require(x.rank >= 2, f"{type(op).__name__}: {x} has no channel axis")
    require_vector(op, "scale", scale, x.shape[1])
    require_vector(op, "bias", bias, x.shape[1])
    return TensorType(x.shape, x.dtype)


@attributes
class GroupNormalization(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance of a group.

    Inputs x [N, C, ...], scale [C] (optional), bias [C] (optional). A group is C / num_groups
    channels in a row of one image, with all their spatial elements.
    """

    num_groups: int
    epsilon: float = 1e-5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x = _infer_grouped(self, inputs)
        channels = x.shape[1]
        good = self.num_groups > 0 and (channels is None or channels % self.num_groups == 0)
        require(good, f"GroupNormalization: {self.num_groups} groups of {channels} channels")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return (_grouped(self, inputs, self.num_groups, self.epsilon),)


@attributes
class InstanceNormalization(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance of a channel.

    Inputs x [N, C, ...], scale [C] (optional), bias [C] (optional).
    """

    epsilon: float = 1e-5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        return (_infer_grouped(self, inputs),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x = inputs[0]
        channels = 1 if x is None else x.shape[1]
        return (_grouped(self, inputs, channels, self.epsilon),)


@attributes
class MeanVarianceNormalization(Op):
    """(x - mean) / sqrt(variance + epsilon) over ``axes``.

    Not ``normalize_variance``: x - mean. ``epsilon_mode``: "add" as above, "add_root":
    sqrt(variance) + epsilon, "max": sqrt(max(variance, epsilon)), "max_root":
    max(sqrt(variance), epsilon).
    """

    axes: tuple[int, ...]
    normalize_variance: bool = True
    epsilon: float = 1e-9
    epsilon_mode: str = "add"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        _check_mode(self, self.epsilon_mode)
        normal_axes(self, self.axes, x.rank)
        return (x,)

    @in_blocks(whole=lambda op, _: op.axes)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        axes = normal_axes(self, self.axes, x.ndim)
        if not x.size:
            return (x.copy(),)
        with np.errstate(all="ignore"):
            y = x - x.mean(axis=axes, dtype=np.float64, keepdims=True)
            if self.normalize_variance:
                variance = np.mean(y * y, axis=axes, keepdims=True)
                y /= root_with(self.epsilon, self.epsilon_mode, variance)
            return (y.astype(x.dtype),)


@attributes
class NormalizeL2(Op):
    """x / sqrt(s + epsilon), s the sum of the squares over ``axes``.

    ``epsilon_mode``: "add" as above, "add_root": sqrt(s) + epsilon, "max": sqrt(max(s, epsilon)),
    "max_root": max(sqrt(s), epsilon). LpNormalization of ONNX with p = 2 is epsilon 0.
    """

    axes: tuple[int, ...]
    epsilon: float = 0.0
    epsilon_mode: str = "add"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        _check_mode(self, self.epsilon_mode)
        normal_axes(self, self.axes, x.rank)
        return (x,)

    @in_blocks(whole=lambda op, _: op.axes)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        axes = normal_axes(self, self.axes, x.ndim)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            squares = np.sum(wide * wide, axis=axes, keepdims=True)
            return ((wide / root_with(self.epsilon, self.epsilon_mode, squares)).astype(x.dtype),)


@attributes
class RMSNormalization(Op):
    """x / sqrt(mean of the squares + epsilon) * scale over the axes from ``axis`` on.

    Inputs x, scale (optional), which has the shape of the normalised axes.
    """

    axis: int = -1
    epsilon: float = 1e-5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, scale = arguments(self, inputs, 1, optional=1)
        require_float(self, x)
        require_dtype(self, x.dtype, scale)
        inner = x.shape[normal_axis(self, self.axis, x.rank) :]
        if scale is not None:
            same = scale.rank == len(inner) and all(map(fits, scale.shape, inner))
            require(same, f"RMSNormalization: scale is {scale}, not of shape {inner}")
        return (x,)

    @in_blocks(whole=lambda op, rank: range(op.axis % rank, rank), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale = arguments(self, inputs, 1, optional=1)
        axes = tuple(range(normal_axis(self, self.axis, x.ndim), x.ndim))
        count = math.prod(x.shape[a] for a in axes)
        with np.errstate(all="ignore"):
            y = x.astype(np.float64)
            y = y / np.sqrt(np.sum(y * y, axis=axes, keepdims=True) / count + self.epsilon)
            y = y if scale is None else y * scale
            return (y.astype(x.dtype),)
