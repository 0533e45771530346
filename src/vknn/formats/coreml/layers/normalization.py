"""Normalization layers and softmax."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merge_batch, merges_batch_axes, restore_batch
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops import normalization as ops
from vknn.ops.elementwise.binary import Add, Mul
from vknn.ops.reduction import Softmax


@layer("batchnorm")
def batchnorm(c: Context) -> Value:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta along axis -3.

    With computeMeanVar mean and variance are the input's: with instanceNormalization for each
    channel of each item, else for each channel.
    """
    p = c.params
    x, lead = merge_batch(c, c.x, 4, least=3)
    channels, epsilon = p.channels, p.epsilon or 1e-5
    c.require(x.type.dims[1] == channels, f"its input {c.x.type} has not {channels} channels")
    gamma = c.constant(c.weight(p.gamma, channels, "gamma"), "gamma")
    beta = c.constant(c.weight(p.beta, channels, "beta"), "beta")
    if not p.computeMeanVar:
        mean = c.constant(c.weight(p.mean, channels, "mean"), "mean")
        variance = c.constant(c.weight(p.variance, channels, "variance"), "variance")
        y = c.add(ops.BatchNormalization(epsilon), x, gamma, beta, mean, variance)
    elif p.instanceNormalization:
        y = c.add(ops.InstanceNormalization(epsilon), x, gamma, beta)
    else:
        y = c.add(ops.MeanVarianceNormalization((0, 2, 3), epsilon=epsilon), x)
        y = c.add(Mul(), y, c.reshape(gamma, (channels, 1, 1)))
        y = c.add(Add(), y, c.reshape(beta, (channels, 1, 1)))
    return restore_batch(c, y, lead)


@layer("mvn")
@merges_batch_axes
def mean_variance_normalization(c: Context) -> Value:
    """x - mean, or (x - mean) / sqrt(variance), over the last two axes or the last three."""
    p = c.params
    _require_rank(c, 3)
    axes = (-3, -2, -1) if p.acrossChannels else (-2, -1)
    epsilon = p.epsilon or 1e-6
    return c.add(ops.MeanVarianceNormalization(axes, p.normalizeVariance, epsilon), c.x)


@layer("l2normalize")
@merges_batch_axes
def l2_normalize(c: Context) -> Value:
    """x / sqrt(sum of squares + epsilon) over the last three axes; an epsilon of 0 means 1e-6."""
    _require_rank(c, 3)
    return c.add(ops.NormalizeL2((-3, -2, -1), c.params.epsilon or 1e-6), c.x)


@layer("lrn")
def local_response_normalization(c: Context) -> Value:
    """x / (k + alpha / localSize * squares of localSize channels)^beta; channels on axis -3.

    The larger half of an even window is before the element, as in PyTorch.
    """
    p = c.params
    x, lead = merge_batch(c, c.x, 4, least=3)
    window = int(p.localSize)
    c.require(0 < window < 1 << 24, f"its window has {window} channels")
    before, after = (min(n, x.type.dims[1]) for n in (window // 2, (window - 1) // 2))
    op = ops.LRN((1,), (before,), (after,), p.alpha / window, p.beta, p.k or 1.0)
    return restore_batch(c, c.add(op, x), lead)


@layer("layerNormalization")
def layer_normalization(c: Context) -> Value:
    """Layer normalization over the last axes, whose sizes normalizedShape lists."""
    p, dims = c.params, c.x.type.dims
    shape = tuple(int(d) for d in p.normalizedShape)
    ends = 0 < len(shape) <= len(dims) and dims[len(dims) - len(shape) :] == shape
    c.require(ends, f"its input {c.x.type} does not end with the normalizedShape {list(shape)}")
    gamma = c.constant(c.weight(p.gamma, shape, "gamma"), "gamma")
    beta = c.constant(c.weight(p.beta, shape, "beta"), "beta")
    return c.add(ops.LayerNormalization(-len(shape), p.eps), c.x, gamma, beta)


@layer("softmax")
@merges_batch_axes
def softmax(c: Context) -> Value:
    """Softmax along axis -3."""
    _require_rank(c, 3)
    return c.add(Softmax(-3), c.x)


@layer("softmaxND")
def softmax_nd(c: Context) -> Value:
    """Softmax along any axis."""
    return c.add(Softmax(c.axis(c.params.axis, c.x.type.rank)), c.x)


def _require_rank(c: Context, least: int) -> None:
    c.require(c.x.type.rank >= least, f"its input {c.x.type} has not rank {least} or more")
