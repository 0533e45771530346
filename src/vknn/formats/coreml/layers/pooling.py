"""Pooling over windows, and global pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merge_batch, restore_batch
from vknn.formats.coreml.layers.common.windows import (
    is_top_left,
    padded_shape,
    read_border_amounts,
    sizes,
)
from vknn.formats.coreml.layers.convolution import padding_3d
from vknn.formats.coreml.registry import layer
from vknn.formats.windows import Pads, flat_pads, same_pads
from vknn.graph import Value
from vknn.ops.elementwise.binary import Mul
from vknn.ops.elementwise.unary import Sqrt, Square
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from vknn.ops.reduction import ReduceL2


@layer("pooling")
def pooling(c: Context) -> Value:
    """Pooling over the last two axes; all axes before the channels are batch axes."""
    p = c.params
    x, lead = merge_batch(c, c.x, 4)
    if p.globalPooling:
        ops = (GlobalMaxPool(), GlobalAveragePool(), ReduceL2(axes=(2, 3)))
        return restore_batch(c, c.add(ops[_kind(c, 3)], x), lead)
    kernel = sizes(c, p.kernelSize, (3, 3), "kernelSize")
    strides = sizes(c, p.stride, (1, 1), "stride")
    padding = _padding(c, x.type.dims[2:], kernel, strides)
    y = _pooled(c, x, kernel, strides, padding, p.avgPoolExcludePadding)
    return restore_batch(c, y, lead)


@layer("pooling3d")
def pooling_3d(c: Context) -> Value:
    """Pooling of x [B, C, D, H, W]."""
    c.require(c.x.type.rank == 5, f"its input {c.x.type} has not rank 5")
    p, none = c.params, (0, 0, 0)
    _kind(c, 2)
    kernel = sizes(c, (p.kernelDepth, p.kernelHeight, p.kernelWidth), none, "its kernel")
    strides = sizes(c, (p.strideDepth, p.strideHeight, p.strideWidth), none, "its stride")
    padding = padding_3d(c)
    if padding is None:
        padding = same_pads(c.x.type.dims[2:], kernel, strides, larger_first=False)
    return _pooled(c, c.x, kernel, strides, padding, p.countExcludePadding)


@layer("globalPooling3d")
def global_pooling_3d(c: Context) -> Value:
    """Pooling over all of D, H and W of x [B, C, D, H, W]."""
    c.require(c.x.type.rank == 5, f"its input {c.x.type} has not rank 5")
    return c.add((GlobalMaxPool(), GlobalAveragePool())[_kind(c, 2)], c.x)


def _kind(c: Context, count: int) -> int:
    """0: maximum, 1: average, 2: root of the sum of squares (L2)."""
    kind = int(c.params.type)
    c.require(0 <= kind < count, f"there is no pooling of type {kind}")
    return kind


def _pooled(
    c: Context,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    only_real: bool,
) -> Value:
    """``only_real``: averages are over elements of x; else padding counts, as zeros."""
    size, steps, edges = tuple(kernel), tuple(strides), flat_pads(padding)
    c.size(padded_shape(x, padding), "its padded input")
    kind = _kind(c, 3)
    if kind == pb.PoolingLayerParams.MAX:
        return c.add(MaxPool(size, steps, edges), x)
    if kind == pb.PoolingLayerParams.AVERAGE:
        return c.add(AveragePool(size, steps, edges, count_include_pad=not only_real), x)
    mean = c.add(AveragePool(size, steps, edges, count_include_pad=True), c.add(Square(), x))
    return c.add(Sqrt(), c.add(Mul(), mean, c.scalar(math.prod(size))))


def _padding(
    c: Context, spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> Pads:
    p = c.params
    kind = p.WhichOneof("PoolingPaddingType")
    if kind == "same":
        return same_pads(spatial, kernel, strides, is_top_left(p.same))
    if kind != "includeLastPixel":
        return read_border_amounts(c, p.valid.paddingAmounts)
    amounts = p.includeLastPixel.paddingAmounts
    edges = sizes(c, amounts, (0, 0), "paddingAmounts", 0)
    found = []
    for size, window, stride, pad in zip(spatial, kernel, strides, edges, strict=True):
        count = -((window - size - 2 * pad) // stride) + 1
        if any(edges) and (count - 1) * stride >= size + pad:
            count -= 1
        c.require(count > 0, f"no window of {window} lies within {size} elements")
        found.append((pad, max(0, (count - 1) * stride + window - size - pad)))
    return tuple(found)
