"""Normalization layers, and scaling by channel."""

from __future__ import annotations

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops import normalization as ops
from vknn.ops.elementwise.binary import Add, Mul


def _channels(c: Context) -> int:
    """The size of axis 1; of a vector that of its only axis."""
    dims = c.x.type.dims
    c.require(len(dims) >= 1, "its input has no axes")
    return dims[1] if len(dims) > 1 else dims[0]


def _per_channel(c: Context, name: str, number: int) -> np.ndarray | None:
    """A blob of one number per channel, or one for all; None where there is no such blob."""
    if not c.has_blob(name):
        return None
    array = c.blob(name, dtype=np.float32)
    channels = _channels(c)
    c.require(
        array.size in (1, channels), f"{name} has {array.size} numbers for {channels} channels"
    )
    return np.broadcast_to(array, (channels,)) if number == 1 else array


def _spread(c: Context, array: np.ndarray) -> Value:
    """Numbers per channel, in a shape that broadcasts to the input."""
    return c.constant(array.reshape(-1, *(1,) * max(c.rank - 2, 0)))


@layer("BatchNormalization")
def batch_normalization(c: Context) -> Value:
    """(x - biases) / sqrt(weights + epsilon); the blobs hold variance and mean."""
    c.require(c.rank >= 2, f"its input has rank {c.rank}")
    channels = _channels(c)
    variance, mean = _per_channel(c, "weights", 1), _per_channel(c, "biases", 1)
    if variance is None or mean is None:
        c.fail("has no weights (variance) or no biases (mean)")
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    found = (ones, zeros, mean, variance)
    parameters = [c.constant(np.ascontiguousarray(a, np.float32)) for a in found]
    return c.add(ops.BatchNormalization(c.float("epsilon|eps")), c.float_input(), *parameters)


@layer("ScaleShift")
def scale_shift(c: Context) -> Value:
    """x * weights + biases by channel; either may be missing."""
    x = c.float_input()
    for name, op in (("weights", Mul()), ("biases", Add())):
        array = _per_channel(c, name, 0)
        if array is not None:
            x = c.add(op, x, _spread(c, array))
    return x


@layer("Norm", "LRN")
def norm(c: Context) -> Value:
    """Local response normalization: x / (k + alpha / n * s) ** beta, s the sum of n squares.

    The window spans ``local-size`` channels, or as many pixels along each spatial axis. Where it
    extends beyond the image n stays the same.
    """
    c.require(c.rank >= 2, f"its input has rank {c.rank}")
    size = c.int("local-size|local_size")
    c.require(size >= 1, f"local-size is {size}")
    across = c.text("region", "across", choices=("across", "same")) == "across"
    axes = (1,) if across else tuple(range(2, c.rank))
    half = ((size - 1) // 2,) * len(axes)
    alpha = c.float("alpha") / size ** len(axes)
    return c.add(
        ops.LRN(axes, half, half, alpha, c.float("beta"), c.float("k", 1.0)), c.float_input()
    )


@layer("MVN")
def mean_variance(c: Context) -> Value:
    """(x - mean) / sqrt(variance + eps) over the pixels, or over pixels and channels."""
    c.require(c.rank >= 2, f"its input has rank {c.rank}")
    first = 1 if c.bool("across_channels", False) else 2
    op = ops.MeanVarianceNormalization(
        tuple(range(first, c.rank)),
        c.bool("normalize_variance", True),
        c.float("eps"),
    )
    return c.add(op, c.float_input())


@layer("GRN")
def global_response(c: Context) -> Value:
    """x / sqrt(sum of the squares over the channels + bias)."""
    c.require(c.rank >= 2, f"its input has rank {c.rank}")
    return c.add(ops.NormalizeL2((1,), c.float("bias", 0.0)), c.float_input())


@layer("Normalize")
def normalize(c: Context) -> Value:
    """weights * x / (sqrt(sum of the squares) + eps).

    The sum is over the channels, with ``across_spatial`` over the pixels too.
    """
    c.require(c.rank >= 2, f"its input has rank {c.rank}")
    last = c.rank if c.bool("across_spatial", False) else 2
    y = c.add(ops.NormalizeL2(tuple(range(1, last)), c.float("eps"), "add_root"), c.float_input())
    scale = _per_channel(c, "weights", 0)
    if scale is None:
        return y
    if c.bool("channel_shared", False):
        c.require(bool(np.all(scale == scale[0])), "its shared weight is not one number")
        scale = scale[:1]
    return c.add(Mul(), y, _spread(c, scale))
