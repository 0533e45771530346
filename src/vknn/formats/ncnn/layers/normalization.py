"""Normalization layers (BatchNorm, LayerNorm, RMSNorm, LRN and others) and Softmax."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.ncnn.context import Context, axis_of, per_outermost, rank, shape
from vknn.formats.ncnn.layers.reduction import one_channel
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.elementwise import Mul
from vknn.ops.movement.shape import Concat, Slice
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
from vknn.ops.reduction import Softmax

_ACROSS_CHANNELS, _WITHIN_CHANNEL = 0, 1
_SMALLEST_DEVIATION = 1e-4


@attributes
class BatchNormParams(Params):
    """Parameters of BatchNorm."""

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
    """Batch normalization (x - mean) / sqrt(var + eps) * slope + bias along the outermost axis."""
    channels, outermost = c.params.channels, shape(c.x)[0]
    c.require(channels == outermost, f"is for {channels} channels, the input has {outermost}")
    eps, var = c.params.eps, c.weight("var")
    # ncnn replaces a standard deviation of exactly 0 by 1e-4.
    var = np.where(var + np.float32(eps) == 0, np.float32(_SMALLEST_DEVIATION**2 - eps), var)
    return c.add(
        BatchNormalization(epsilon=eps),
        c.x,
        c.weight_value("slope"),
        c.weight_value("bias"),
        c.weight_value("mean"),
        c.constant(var.astype(np.float32), "var"),
    )


@attributes
class LayerNormParams(Params):
    """Parameters of LayerNorm and RMSNorm."""

    affine_size: int = param(0)
    eps: float = param(1, 0.001)
    affine: int = param(2, 1)

    def check(self) -> None:
        good = self.affine_size > 0 or not self.affine
        require(good, f"affine_size {self.affine_size} must be positive")


def _layer_norm_weights(p: LayerNormParams) -> list[WeightSpec]:
    return [WeightSpec(name, (p.affine_size,)) for name in ("gamma", "beta")] if p.affine else []


def _inner(c: Context[LayerNormParams]) -> tuple[int, ...]:
    """Sizes of the innermost axes that are normalized: the fewest with ``affine_size`` elements; if
    there are none, those of a channel (of a row, for blobs of one or two axes)."""
    sizes, wanted = shape(c.x), c.params.affine_size
    most = max(rank(c.x) - 1, 1)
    fitting = (sizes[-n:] for n in range(1, most + 1) if math.prod(sizes[-n:]) == wanted)
    inner = next(fitting, sizes[-most:])
    good = math.prod(inner) <= wanted or not c.params.affine
    c.require(good, f"affine_size {wanted} does not match the inner axes of {list(sizes)}")
    return inner


@layer("LayerNorm", params=LayerNormParams, weights=_layer_norm_weights)
def layer_norm(c: Context[LayerNormParams]) -> Value:
    """Layer normalization over the innermost axes.

    ncnn differs: with an affine_size that fits no axes a channel is normalized, by the first values
    of gamma and beta.
    """
    inner = _inner(c)
    op = LayerNormalization(axis=c.x.type.rank - len(inner), epsilon=c.params.eps)
    if not c.params.affine:
        return c.add(op, c.x, None, None)
    return c.add(op, c.x, *(_factors(c, name, inner) for name in ("gamma", "beta")))


def _factors(c: Context[P], name: str, sizes: tuple[int, ...]) -> Value:
    """The first values of a weight in the shape ``sizes``."""
    return c.constant(c.weight(name)[: math.prod(sizes)].reshape(sizes), name)


@layer(
    "RMSNorm",
    params=LayerNormParams,
    weights=lambda p: [WeightSpec("gamma", (p.affine_size,))] if p.affine else [],
)
def rms_norm(c: Context[LayerNormParams]) -> Value:
    """RMS normalization x / sqrt(mean of squares + eps) over the innermost axes, as LayerNorm."""
    inner = _inner(c)
    op = RMSNormalization(axis=c.x.type.rank - len(inner), epsilon=c.params.eps)
    if not c.params.affine:
        return c.add(op, c.x)
    return c.add(op, c.x, _factors(c, "gamma", inner))


@attributes
class GroupNormParams(Params):
    """Parameters of GroupNorm."""

    group: int = param(0, 1)
    channels: int = param(1)
    eps: float = param(2, 0.001)
    affine: int = param(3, 1)

    def check(self) -> None:
        require(self.group > 0, f"group {self.group} must be positive")


def _channel_weights(p: GroupNormParams | InstanceNormParams) -> list[WeightSpec]:
    return [WeightSpec(name, (p.channels,)) for name in ("gamma", "beta")] if p.affine else []


@layer("GroupNorm", params=GroupNormParams, weights=_channel_weights)
def group_norm(c: Context[GroupNormParams]) -> Value:
    """Group normalization of the outermost axis, with gamma and beta along it.

    ncnn differs: channels beyond those that it is for are unchanged.
    """
    p, outermost = c.params, shape(c.x)[0]
    good = 0 < p.channels <= outermost
    c.require(good, f"is for {p.channels} channels, the input has {outermost}")
    c.require(p.channels % p.group == 0, f"{p.channels} channels are not {p.group} equal groups")
    op = GroupNormalization(p.group, p.eps)
    gamma, beta = c.weight_value("gamma"), c.weight_value("beta")
    if p.channels == outermost:
        return c.add(op, c.x, gamma, beta)
    first, others = (
        c.add(Slice((start,), (end,), (1,)), c.x)
        for start, end in ((0, p.channels), (p.channels, outermost))
    )
    return c.add(Concat(1), c.add(op, first, gamma, beta), others)


@attributes
class InstanceNormParams(Params):
    """Parameters of InstanceNorm."""

    channels: int = param(0)
    eps: float = param(1, 0.001)
    affine: int = param(2, 1)


@layer("InstanceNorm", params=InstanceNormParams, weights=_channel_weights)
def instance_norm(c: Context[InstanceNormParams]) -> Value:
    """Instance normalization: each channel on its own; 1-D and 2-D blobs are one channel.

    Surplus values of gamma and beta are ignored.
    """
    x, p = one_channel(c, c.x), c.params
    channels = shape(x)[0]
    good = p.channels >= channels or not p.affine
    c.require(good, f"is for {p.channels} channels, the input has {channels}")
    op = InstanceNormalization(p.eps)
    if not p.affine:
        return c.reshape(c.add(op, x, None, None), c.x.type.dims)
    factors = (_factors(c, name, (channels,)) for name in ("gamma", "beta"))
    return c.reshape(c.add(op, x, *factors), c.x.type.dims)


@attributes
class MvnParams(Params):
    """Parameters of MVN."""

    normalize_variance: int = param(0)
    across_channels: int = param(1)
    eps: float = param(2, 0.0001)


@layer("MVN", params=MvnParams)
def mvn(c: Context[MvnParams]) -> Value:
    """Mean and variance normalization, by standard deviation + eps, of each channel or the blob.

    ncnn differs: the output for 1-D and 2-D blobs has three axes.
    """
    x, p = one_channel(c, c.x), c.params
    axes = tuple(range(1 if p.across_channels else 2, x.type.rank))
    divides = bool(p.normalize_variance)
    return c.add(MeanVarianceNormalization(axes, divides, p.eps, "add_root"), x)


#: eps_mode -> the way in which epsilon enters the norm (see NormalizeL2).
_EPS_MODES = ("add", "max_root", "max")


@attributes
class NormalizeParams(Params):
    """Parameters of Normalize."""

    across_spatial: int = param(0)
    channel_shared: int = param(1)
    eps: float = param(2, 0.0001)
    scale_data_size: int = param(3)
    across_channel: int = param(4, 1)
    eps_mode: int = param(9)

    def check(self) -> None:
        require(0 <= self.eps_mode < len(_EPS_MODES), f"unknown eps_mode {self.eps_mode}")


@layer(
    "Normalize",
    params=NormalizeParams,
    weights=lambda p: [WeightSpec("scale", (p.scale_data_size,))],
)
def normalize(c: Context[NormalizeParams]) -> Value:
    """L2 normalization x / norm * scale, the norm taken over space, channels or both.

    1-D and 2-D blobs are one channel; surplus values of scale are ignored.

    ncnn differs: across neither space nor channels the blob is unchanged, not even scaled.
    """
    x, p = one_channel(c, c.x), c.params
    if not p.across_spatial and not p.across_channel:
        return c.x
    axes: tuple[int, ...] = (1,) if p.across_channel else ()
    axes += tuple(range(2, x.type.rank)) if p.across_spatial else ()
    y = c.add(NormalizeL2(axes, p.eps, _EPS_MODES[p.eps_mode]), x)
    scale, channels = c.weight("scale"), shape(x)[0]
    wanted = 1 if p.channel_shared else channels
    c.require(scale.size >= wanted, f"has {scale.size} values of scale for {channels} channels")
    scale = scale[:wanted]
    if np.any(scale != 1):
        y = c.add(Mul(), y, per_outermost(c, scale, x, "scale"))
    return c.reshape(y, c.x.type.dims)


@attributes
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
    """Local response normalization x * (bias + alpha * mean square) ** -beta.

    A window of even size has one more element before the centre than after it.

    ncnn differs: of a 4-D blob it normalizes only the first slice of the depth.
    """
    if rank(c.x) == 4:
        first = c.add(Slice((0,), (1,), (2,)), c.x)
        channels, depth, height, width = shape(c.x)
        y = _windowed(c, c.reshape(first, (1, channels, height, width)))
        y = c.reshape(y, (1, channels, 1, height, width))
        return y if depth == 1 else c.add(Concat(2), y, c.add(Slice((1,), (depth,), (2,)), c.x))
    return c.reshape(_windowed(c, one_channel(c, c.x)), c.x.type.dims)


def _windowed(c: Context[LrnParams], x: Value) -> Value:
    p, size = c.params, c.params.local_size
    half = size // 2
    if p.region_type == _ACROSS_CHANNELS:
        return _lrn(c, x, (1,), half, size - half - 1, size)
    return _lrn(c, x, (2, 3), half, size - half - 1, size * size)


def _lrn(
    c: Context[LrnParams], x: Value, axes: tuple[int, ...], before: int, after: int, n: int
) -> Value:
    op = LRN(
        axes=axes,
        before=(before,) * len(axes),
        after=(after,) * len(axes),
        alpha=c.params.alpha / n,
        beta=c.params.beta,
        bias=c.params.bias,
    )
    return c.add(op, x)


@attributes
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
    """Softmax along an axis; for 1-D blobs along their only one, whatever the parameter is."""
    axis = 1 if rank(c.x) == 1 else axis_of(c, c.x, c.params.axis)
    return c.add(Softmax(axis=axis), c.x)
