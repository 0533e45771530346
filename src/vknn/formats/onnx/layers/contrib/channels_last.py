"""Convolutions, pools and normalisations of images whose channels are the last axis."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import cropped, window
from vknn.formats.onnx.layers.contrib.fused import activated
from vknn.formats.onnx.layers.convolution import convolved
from vknn.formats.onnx.layers.pooling import pooled_maximum
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.normalization import GroupNormalization


def _first(c: Context, x: Value) -> Value:
    """``x`` with its channels behind the batch."""
    rank = x.type.rank
    c.require(rank >= 2, f"takes no {x.type}")
    return c.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _last(c: Context, x: Value) -> Value:
    rank = x.type.rank
    return c.transpose(x, (0, *range(2, rank), 1))


@operator("NhwcConv", 1, inputs=(2, 3), domain=MICROSOFT)
def nhwc_conv(c: Context) -> Value:
    """Conv of images whose channels are the last axis"""
    return _last(c, _convolved(c))


@operator("NhwcFusedConv", 1, inputs=(2, 4), domain=MICROSOFT)
def nhwc_fused_conv(c: Context) -> Value:
    """FusedConv of images whose channels are the last axis"""
    found = _convolved(c)
    if c.optional(3) is not None:
        found = c.add(ew.Add(), found, _first(c, c.value(3)))
    return _last(c, activated(c, found))


def _convolved(c: Context) -> Value:
    x, weights = _first(c, c.x), c.value(1)
    c.require(weights.type.rank == c.rank, f"has the weights {weights.type} for {c.x.type}")
    depth = x.type.dims[1] // max(c.int("group", 1), 1)
    if weights.type.dims[1] != depth and weights.type.dims[-1] == depth:
        weights = _first(c, weights)  # some files have their channels last, too
    x, w = cropped(c, x, window(c, weights.type.dims[2:], negative=True))
    return convolved(c, x, weights, c.optional(2), w)


@operator("NhwcMaxPool", 1, domain=MICROSOFT)
def nhwc_max_pool(c: Context) -> Value:
    """MaxPool of images whose channels are the last axis"""
    w = window(c)
    return _last(c, pooled_maximum(c, _first(c, c.x), w))


@operator("GroupNorm", 1, inputs=3, domain=MICROSOFT)
def group_norm(c: Context) -> Value:
    """GroupNormalization, of images whose channels are the last axis, and x * sigmoid(x) of it"""
    return _normalized(c, c.x)


@operator("SkipGroupNorm", 1, inputs=(4, 5), outputs=(1, 2), domain=MICROSOFT)
def skip_group_norm(c: Context) -> tuple[Value, ...]:
    """GroupNorm of a sum, which is the second output"""
    skip = c.value(3)
    if skip.type.rank == 2:
        skip = c.reshape(skip, (skip.type.dims[0], *[1] * (c.rank - 2), skip.type.dims[1]))
    total = c.add(ew.Add(), c.x, skip)
    if c.optional(4) is not None:
        total = c.add(ew.Add(), total, c.value(4))
    return _normalized(c, total), total


def _normalized(c: Context, total: Value) -> Value:
    last, kind = c.flag("channels_last", True), total.type.dtype
    x = _first(c, total) if last else total
    groups, channels = c.int("groups"), x.type.dims[1]
    c.require(groups > 0 and channels % groups == 0, f"has {groups} groups of {channels} channels")
    values = [c.cast(v, DType.FLOAT32) for v in (x, c.value(1), c.value(2))]
    found = c.add(GroupNormalization(groups, c.float("epsilon", 1e-5)), *values)
    if c.int("activation"):
        found = c.add(ew.Swish(), found)
    return c.cast(_last(c, found) if last else found, kind)
