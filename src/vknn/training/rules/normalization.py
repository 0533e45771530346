"""Gradients of normalisations, which are taken apart into means, roots and products.

The small numbers under roots keep the gradient finite where a square is exactly 0; they vanish
beside any other float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.graph import Value
from vknn.ops import elementwise as e
from vknn.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.pooling.pool import AveragePool
from vknn.ops.reduction import ReduceMean, ReduceSum
from vknn.training.gradients import decomposition
from vknn.training.scope import Scope

#: Added under a root that nothing else keeps from 0.
TINY = 1e-36


def along_channels(g: Scope, vector: Value, like: Value) -> Value:
    """A vector of channels in a shape that broadcasts to ``like`` [N, C, ...]."""
    return g.reshape(vector, vector.type.dims[0], *[1] * (like.type.rank - 2))


def affine(g: Scope, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """x * scale + bias, where they are there."""
    x = x if scale is None else g.times(x, scale)
    return x if bias is None else g.plus(x, bias)


def divided(g: Scope, x: Value, squares: Value, epsilon: float, mode: str) -> Value:
    """x over the root of ``squares``, kept from 0 by ``epsilon`` as ``mode`` says."""
    if mode == "add":
        return g.times(x, g.unary(e.Rsqrt(), g.plus(squares, max(epsilon, TINY))))
    if mode == "add_root":
        return g.over(x, g.plus(g.unary(e.Sqrt(), g.plus(squares, TINY)), epsilon))
    least = epsilon if mode == "max" else epsilon * epsilon
    return g.times(x, g.unary(e.Rsqrt(), g.unary(e.Clip(min=max(least, TINY)), squares)))


def centred(g: Scope, x: Value, axes: Sequence[int]) -> Value:
    """x less its mean over ``axes``."""
    return g.minus(x, g.add(ReduceMean(tuple(axes)), x))


def mean_square(g: Scope, x: Value, axes: Sequence[int]) -> Value:
    """The mean of the squares over ``axes``."""
    return g.add(ReduceMean(tuple(axes)), g.unary(e.Square(), x))


def standardized(g: Scope, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """x with mean 0 and variance 1 over ``axes``."""
    x = centred(g, x, axes)
    return divided(g, x, mean_square(g, x, axes), epsilon, "add")


@decomposition(BatchNormalization)
def batch_normalization(g: Scope) -> Value:
    """(x - mean) * (scale / sqrt(var + epsilon)) + bias"""
    x, scale, bias, mean, variance = (g.x(i) for i in range(5))
    root = g.unary(e.Rsqrt(), g.plus(variance, g.op(BatchNormalization).epsilon))
    factor = along_channels(g, g.times(scale, root), x)
    return g.plus(
        g.times(g.minus(x, along_channels(g, mean, x)), factor), along_channels(g, bias, x)
    )


@decomposition(LayerNormalization)
def layer_normalization(g: Scope) -> Value:
    """Standardized over the axes from ``axis`` on, then affine."""
    op, x = g.op(LayerNormalization), g.x()
    axes = range(op.axis % x.type.rank, x.type.rank)
    return affine(g, standardized(g, x, axes, op.epsilon), g.optional(1), g.optional(2))


@decomposition(GroupNormalization, InstanceNormalization)
def group_normalization(g: Scope) -> Value:
    """Standardized over each group of channels, then affine."""
    op, x = g.node.op, g.x()
    assert isinstance(op, GroupNormalization | InstanceNormalization)
    n, channels, *image = x.type.dims
    groups = op.num_groups if isinstance(op, GroupNormalization) else channels
    lines = g.reshape(x, n, groups, channels // groups * math.prod(image))
    y = g.reshape(standardized(g, lines, [2], op.epsilon), *x.type.dims)
    given = (g.optional(1), g.optional(2))
    return affine(g, y, *(None if v is None else along_channels(g, v, x) for v in given))


@decomposition(MeanVarianceNormalization)
def mean_variance_normalization(g: Scope) -> Value:
    """Centred, and over the root of the mean square."""
    op, x = g.op(MeanVarianceNormalization), g.x()
    axes = [a % x.type.rank for a in op.axes]
    y = centred(g, x, axes)
    if not op.normalize_variance:
        return y
    return divided(g, y, mean_square(g, y, axes), op.epsilon, op.epsilon_mode)


@decomposition(NormalizeL2)
def normalize_l2(g: Scope) -> Value:
    """Quotient by the root of the sum of the squares."""
    op, x = g.op(NormalizeL2), g.x()
    squares = g.add(ReduceSum(op.axes), g.unary(e.Square(), x))
    return divided(g, x, squares, op.epsilon, op.epsilon_mode)


@decomposition(RMSNormalization)
def rms_normalization(g: Scope) -> Value:
    """Quotient by the root of the mean of the squares, times the scale."""
    op, x = g.op(RMSNormalization), g.x()
    axes = range(op.axis % x.type.rank, x.type.rank)
    y = divided(g, x, mean_square(g, x, axes), op.epsilon, "add")
    return affine(g, y, g.optional(1), None)


@decomposition(LRN)
def local_response(g: Scope) -> Value:
    """x * e^(-beta ln(bias + alpha * s)), s the sums of the squares in windows."""
    op, x = g.op(LRN), g.x()
    sums = g.unary(e.Square(), x)
    for axis, before, after in zip(op.axes, op.before, op.after, strict=True):
        sums = _window_sums(g, sums, axis % x.type.rank, before, after)
    base = g.plus(g.times(sums, op.alpha), op.bias)
    return g.times(x, g.unary(e.Exp(), g.times(g.unary(e.Log(), base), -op.beta)))


def _window_sums(g: Scope, x: Value, axis: int, before: int, after: int) -> Value:
    dims = x.type.dims
    lines = g.reshape(x, math.prod(dims[:axis]), 1, dims[axis], math.prod(dims[axis + 1 :]))
    kernel = (before + after + 1, 1)
    means = AveragePool(kernel, (1, 1), (before, 0, after, 0), count_include_pad=True)
    return g.reshape(g.times(g.add(means, lines), kernel[0]), *dims)
