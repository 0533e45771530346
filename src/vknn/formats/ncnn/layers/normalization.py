"""BatchNorm, LayerNorm, LRN and Softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.formats.ncnn.context import Context, axis_of, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.reduction import Softmax

_ACROSS_CHANNELS, _WITHIN_CHANNEL = 0, 1
_SMALLEST_DEVIATION = 1e-4


@dataclass(frozen=True)
class BatchNormParams(Params):
    channels: int = param(0)
    eps: float = param(1, 0.0)


@layer(
    "BatchNorm",
    params=BatchNormParams,
    weights=lambda p: [
        WeightSpec(name, (p.channels,)) for name in ("slope", "mean", "var", "bias")
    ],
)
def batch_norm(c: Context[BatchNormParams]) -> Value:
    """(x - mean) / sqrt(var + eps) * slope + bias along the outermost axis."""
    channels, outermost = c.params.channels, shape(c.x)[0]
    c.require(channels == outermost, f"is for {channels} channels, the input has {outermost}")
    eps, var = c.params.eps, c.weight("var")
    # A deviation of exactly 0 counts as 1e-4.
    var = np.where(var + np.float32(eps) == 0, np.float32(_SMALLEST_DEVIATION**2 - eps), var)
    return c.add(
        BatchNormalization(epsilon=eps),
        c.x,
        c.weight_value("slope"),
        c.weight_value("bias"),
        c.weight_value("mean"),
        c.constant(var.astype(np.float32), "var"),
    )


@dataclass(frozen=True)
class LayerNormParams(Params):
    """Parameters of LayerNorm."""

    affine_size: int = param(0)
    eps: float = param(1, 0.001)
    affine: int = param(2, 1)

    def check(self) -> None:
        require(self.affine_size > 0, f"affine_size {self.affine_size} must be positive")


def _layer_norm_weights(p: LayerNormParams) -> list[WeightSpec]:
    return [WeightSpec(name, (p.affine_size,)) for name in ("gamma", "beta")] if p.affine else []


@layer("LayerNorm", params=LayerNormParams, weights=_layer_norm_weights)
def layer_norm(c: Context[LayerNormParams]) -> Value:
    """Normalises over as many inner axes as have ``affine_size`` elements, the fewest first."""
    sizes, wanted = shape(c.x), c.params.affine_size
    most = max(rank(c.x) - 1, 1)
    for count in range(1, most + 1):
        inner = sizes[-count:]
        if math.prod(inner) == wanted:
            break
    else:
        c.fail(f"affine_size {wanted} does not match the inner axes of {list(sizes)}")
    op = LayerNormalization(axis=c.x.type.rank - len(inner), epsilon=c.params.eps)
    if not c.params.affine:
        return c.add(op, c.x, None, None)
    gamma, beta = (c.constant(c.weight(name).reshape(inner), name) for name in ("gamma", "beta"))
    return c.add(op, c.x, gamma, beta)


@dataclass(frozen=True)
class LrnParams(Params):
    """Parameters of LRN."""

    region_type: int = param(0)
    local_size: int = param(1, 5)
    alpha: float = param(2, 1.0)
    beta: float = param(3, 0.75)
    bias: float = param(4, 1.0)

    def check(self) -> None:
        known = (_ACROSS_CHANNELS, _WITHIN_CHANNEL)
        require(self.region_type in known, f"unknown region_type {self.region_type}")
        require(self.local_size > 0, f"local_size {self.local_size} must be positive")


@layer("LRN", params=LrnParams)
def lrn(c: Context[LrnParams]) -> Value:
    """x * (bias + alpha * mean square) ** -beta; an even window reaches one further back."""
    c.require(rank(c.x) == 3, f"takes a 3-D blob, not {list(shape(c.x))}")
    p, size = c.params, c.params.local_size
    half = size // 2
    if p.region_type == _ACROSS_CHANNELS:
        return _lrn(c, (1,), half, size - half - 1, size)
    return _lrn(c, (2, 3), half, size - half - 1, size * size)


def _lrn(c: Context[LrnParams], axes: tuple[int, ...], before: int, after: int, n: int) -> Value:
    op = LRN(
        axes=axes,
        before=(before,) * len(axes),
        after=(after,) * len(axes),
        alpha=c.params.alpha / n,
        beta=c.params.beta,
        bias=c.params.bias,
    )
    return c.add(op, c.x)


@dataclass(frozen=True)
class SoftmaxParams(Params):
    """Parameters of Softmax."""

    axis: int = param(0)
    fixbug0: int = param(1)

    def check(self) -> None:
        require(
            self.fixbug0 != 0 or self.axis == 0,
            "softmax along an axis other than 0 needs parameter 1 (fixbug0): regenerate the file",
        )


@layer("Softmax", params=SoftmaxParams)
def softmax(c: Context[SoftmaxParams]) -> Value:
    return c.add(Softmax(axis=axis_of(c, c.x, c.params.axis)), c.x)
