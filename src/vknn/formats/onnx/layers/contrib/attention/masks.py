"""Masks in the forms that onnxruntime's attention takes: lengths, places, or zeros and ones."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.masks import Mask, before
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import And, Greater, LessOrEqual, Where
from vknn.ops.movement.shape import Slice

#: The default of mask_filter_value.
_HIDDEN = -10000.0


def add_keys(c: Context, mask: Mask, number: int, queries: int, keys: int) -> None:
    """Addition of mask_filter_value to the scores of keys that an input hides, if there is one."""
    if c.optional(number) is None:
        return
    seen, kind = _seen(c, number, queries, keys), DType.FLOAT32
    hidden = c.scalar(c.float("mask_filter_value", _HIDDEN), kind)
    mask.add(c.add(Where(), seen, c.scalar(0, kind), hidden))


def _seen(c: Context, number: int, queries: int, keys: int) -> Value:
    """Keys that are seen: bool that broadcasts to [B, heads, queries, keys]."""
    given = c.value(number)
    batch, dims = c.x.type.dims[0], given.type.dims
    every = (None,), (batch, keys), (batch, queries, keys), (batch, 1, None, None)
    shaped(c, number, "the mask of keys", *every)
    if len(dims) == 1:
        return _by_lengths(c, c.cast(given, DType.INT32), batch, keys)
    seen = given
    if given.type.dtype is not DType.BOOL:
        given = c.cast(given, DType.INT32)
        seen = c.add(Greater(), given, c.scalar(0, DType.INT32))
    if len(dims) == 4:  # all places of a model, of which the last that there are count
        c.require(dims[2] >= keys <= dims[3], f"has the mask {given.type} for {keys} keys")
        return c.add(Slice((keys - queries, 0), (keys, keys), (2, 3)), seen)
    return c.reshape(seen, (batch, 1, dims[1] if len(dims) == 3 else 1, keys))


def _by_lengths(c: Context, given: Value, batch: int, keys: int) -> Value:
    """Lengths [B], ends then starts [2 B], or lengths and cumulative sums [3 B + 2]."""
    count = given.type.size
    c.require(count in (batch, 2 * batch, 3 * batch + 2), f"has {count} lengths for {batch}")
    ends = c.add(Slice((0,), (batch,), (0,)), given)
    seen = before(c, ends, keys)
    if count != 2 * batch:
        return seen
    starts = c.reshape(c.add(Slice((batch,), (2 * batch,), (0,)), given), (batch, 1, 1, 1))
    places = c.constant(np.arange(keys, dtype=np.int32), "places")
    return c.add(And(), seen, c.add(LessOrEqual(), starts, places))


def add_bias(c: Context, mask: Mask, number: int) -> None:
    """Addition of the input attention_bias, [B or 1, heads or 1, S, T], if there is one."""
    bias = c.optional(number)
    if bias is not None:
        c.require(bias.type.rank == 4, f"has the bias {bias.type}")
        mask.add(c.cast(bias, DType.FLOAT32))
