"""Attention of com.microsoft: with the projections of queries, keys and values."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.cache import written
from vknn.formats.onnx.layers.attention.heads import extended, joined_heads
from vknn.formats.onnx.layers.attention.masks import Mask, Positions
from vknn.formats.onnx.layers.attention.rotary import rotated
from vknn.formats.onnx.layers.attention.scores import Scoring, attended
from vknn.formats.onnx.layers.contrib.attention.masks import add_bias, add_keys
from vknn.formats.onnx.layers.contrib.attention.projected import all_split, projected
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import Value
from vknn.ops.movement.shape import Concat, Slice


@operator("Attention", 1, inputs=(2, 7), outputs=(1, 2), domain=MICROSOFT)
def attention(c: Context) -> list[Item]:
    """Attention of a sequence to itself, all projections by one weight"""
    heads = c.int("num_heads")
    c.require(heads > 0, f"has {heads} heads")
    q, k, v = projected(c, heads)
    queries, past = q.type.dims[1], c.optional(4)
    before, shared = _past_length(c)
    if c.flag("do_rotary"):
        q, k = (_turned(c, x, heads, before) for x in (q, k))
    present: Item = None
    total = before + queries
    if past is not None or c.wants(1):
        q, k, v = all_split(c, (q, k, v), (heads,) * 3)
        c.require(k.type == v.type, f"caches {k.type} and {v.type} together")
        k, v, present = _with_past(c, k, v, before, shared)
    mask = Mask(c)
    add_keys(c, mask, 3, queries, total)
    add_bias(c, mask, 5)
    if c.flag("unidirectional"):
        Positions(queries, total, before).causal(c, mask)
    depth = q.type.dims[-1] // (1 if q.type.rank == 4 else heads)
    how = Scoring(float(c.float("scale", 0.0) or max(depth, 1) ** -0.5))
    found = attended(c, q, k, v, heads, heads, how, mask.bias(q.type.dtype))
    return [joined_heads(c, found) if found.type.rank == 4 else found, present]


def _past_length(c: Context) -> tuple[int, bool]:
    """Keys that the cache holds, and whether its buffer may be longer than that."""
    past = c.optional(4)
    if past is None:
        return 0, False
    c.require(past.type.rank == 5 and past.type.dims[0] == 2, f"has the past {past.type}")
    if not c.flag("past_present_share_buffer"):
        return past.type.dims[3], False
    length = int(c.number(6, "past_sequence_length"))
    room = past.type.dims[3] - c.x.type.dims[1]
    c.require(0 <= length <= room, f"has a past of {length} in {past.type}")
    return length, True


def _with_past(
    c: Context, k: Value, v: Value, before: int, shared: bool
) -> tuple[Value, Value, Value]:
    """Keys and values [B, heads, T, D] with those of the cache before them, and the new cache."""
    (batch, heads, length, depth), past = k.type.dims, c.optional(4)
    if past is not None:
        dims = (2, batch, heads, past.type.dims[3], depth)
        c.require(past.type.dims == dims, f"has the past {past.type}, not {list(dims)}")
    halves: list[Value] = []
    whole: list[Value] = []
    for number, new in enumerate((k, v)):
        old = None
        if past is not None:
            old = c.add(Slice((number,), (number + 1,), (0,)), past)
            old = c.reshape(old, past.type.dims[1:])
        if shared and old is not None:
            first = c.constant(np.full(batch, before, np.int32), "first")
            halves.append(written(c, old, new, first, 2, ring=False))
            whole.append(c.add(Slice((0,), (before + length,), (2,)), halves[-1]))
        else:
            halves.append(extended(c, old, new))
            whole.append(halves[-1])
    present = [c.reshape(x, (1, *x.type.dims)) for x in halves]
    return whole[0], whole[1], c.add(Concat(0), *present)


def _turned(c: Context, x: Value, heads: int, before: int) -> Value:
    """[B, S, heads * D] turned by the angles of its places, halves of each head as pairs."""
    length, width = x.type.dims[1], c.int("rotary_embedding_dim", 0)
    width = width or x.type.dims[2] // heads
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = (np.arange(before, before + length)[:, None] * rates)[None]
    kind = x.type.dtype
    cos, sin = (c.constant(f(angles).astype(kind.numpy), "table") for f in (np.cos, np.sin))
    return rotated(c, x, cos, sin, heads, width, False)
