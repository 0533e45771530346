"""GroupQueryAttention: attention whose queries share keys, with rotations and a cache inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.cache import written
from vknn.formats.onnx.layers.attention.heads import extended, joined_heads, split_heads
from vknn.formats.onnx.layers.attention.masks import Mask, Positions, before
from vknn.formats.onnx.layers.attention.rotary import gathered, rotated, tables_at
from vknn.formats.onnx.layers.attention.scores import Scoring, attended, is_plain, stages
from vknn.formats.onnx.layers.contrib.attention.masks import add_bias
from vknn.formats.onnx.layers.contrib.attention.projected import parts
from vknn.formats.onnx.layers.normalization import rms_normalized
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.movement.shape import Concat, Expand, Slice


@dataclass(frozen=True)
class _Lengths:
    """Lengths of a step.

    ``total``: of the longest sequence; ``ends``: how many keys each of the batch has in the end,
    ``firsts``: how many of these the cache held before, ``filled``: how far the cache is written;
    all int32 [B].
    """

    total: int
    ends: Value
    firsts: Value
    filled: Value


@operator("GroupQueryAttention", 1, inputs=(7, 17), outputs=(1, 4), domain=MICROSOFT)
def group_query_attention(c: Context) -> list[Item]:
    """Attention whose queries share keys, with rotations and a cache inside"""
    _refuse_rare(c)
    heads, groups = c.int("num_heads"), c.int("kv_num_heads")
    c.require(groups > 0 and heads > 0 and heads % groups == 0, f"{heads} heads, {groups} of keys")
    q, k, v = _inputs(c, heads, groups)
    lengths = _lengths(c, q.type.dims[1])
    q, k = (_normalized(c, x, n, i) for x, n, i in ((q, heads, 14), (k, groups, 15)))
    if c.flag("do_rotary"):
        q, k = _turned(c, q, k, (heads, groups), lengths)
    q, k, v = (split_heads(c, x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    caches = [_cache(c, past, x, lengths) for past, x in ((3, k), (4, v))]
    k, v = (_first_keys(c, x, lengths.total) for x in caches)
    how = _scoring(c, q.type.dims[3])
    bias = _mask(c, q.type.dims[2], lengths)
    found, scores = _output(c, (q, k, v), how, bias)
    return [joined_heads(c, found), *caches, scores]


def _refuse_rare(c: Context) -> None:
    if c.flag("sliding_window_cache"):
        c.refuse("the cache of a sliding window")
    kinds = [c.text(f"{name}_quant_type", "NONE") for name in "kv"]
    if any(kind != "NONE" for kind in kinds) or c.optional(12) or c.optional(13):
        c.refuse("a quantized cache")


def _inputs(c: Context, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """q [B, S, heads * D], k and v [B, S, groups * D]."""
    q, k, v = c.x, c.optional(1), c.optional(2)
    c.require(q.type.rank == 3, f"takes no {q.type}")
    c.require((k is None) == (v is None), "has keys or values alone")
    if k is None or v is None:
        width = q.type.dims[2]
        c.require(width % (heads + 2 * groups) == 0, f"has packed {q.type} for {heads} heads")
        depth = width // (heads + 2 * groups)
        q, k, v = parts(c, q, (heads * depth, groups * depth, groups * depth))
    c.require((c.optional(3) is None) == (c.optional(4) is None), "has a half of a past")
    return q, k, v


def _lengths(c: Context, queries: int) -> _Lengths:
    batch = c.x.type.dims[0]
    total = int(c.number(6, "total_sequence_length"))
    c.require(total > 0, f"has the total_sequence_length {total}")
    given = c.value(5)
    c.require(given.type.size == batch, f"has {given.type} lengths for a batch of {batch}")
    given = c.reshape(c.cast(given, DType.INT32), (batch,))
    ends = c.add(ew.Add(), given, c.scalar(1, DType.INT32))
    if c.optional(16) is not None:
        new = c.reshape(c.cast(c.value(16), DType.INT32), (batch,))
    else:
        new = c.scalar(queries, DType.INT32)
    firsts = c.add(ew.Max(), c.add(ew.Sub(), ends, new), c.scalar(0, DType.INT32))
    return _Lengths(total, ends, firsts, c.add(ew.Add(), firsts, new))


def _normalized(c: Context, x: Value, heads: int, number: int) -> Value:
    """[B, S, heads * D], each head by its mean square where there is a weight for it."""
    weight = c.optional(number)
    if weight is None:
        return x
    dims, kind = x.type.dims, x.type.dtype
    shared = c.float("qk_norm_epsilon", 1e-6)
    epsilon = c.float("q_norm_epsilon" if number == 14 else "k_norm_epsilon", shared)
    apart = c.reshape(x, (*dims[:2], heads, dims[2] // heads))
    wide = c.cast(apart, DType.FLOAT32)
    found = rms_normalized(c, wide, 3, float(epsilon), c.cast(weight, DType.FLOAT32))
    return c.reshape(c.cast(found, kind), dims)


def _turned(
    c: Context, q: Value, k: Value, heads: tuple[int, int], lengths: _Lengths
) -> tuple[Value, Value]:
    """Queries and keys turned by the angles of their places."""
    cos, sin = c.value(7), c.value(8)
    batch, queries = q.type.dims[:2]
    given, firsts = c.optional(9), lengths.firsts
    if given is not None and (queries != lengths.total or c.optional(16) is not None):
        c.require(given.type.dims == (batch, queries), f"has the places {given.type}")
        cos, sin = tables_at(c, 9, cos, sin)
    else:
        if given is not None:  # of the first step, the first place counts alone
            row = c.reshape(c.cast(given, DType.INT32), (given.type.size,))
            firsts = c.add(Slice((0,), (1,), (0,)), row)
        steps = c.constant(np.arange(queries, dtype=np.int32)[None], "steps")
        places = c.add(ew.Add(), c.reshape(firsts, (firsts.type.size, 1)), steps)
        places = c.add(Expand((batch, queries)), places)
        cos, sin = gathered(c, cos, places), gathered(c, sin, places)
    width, pairs = 2 * cos.type.dims[2], c.flag("rotary_interleaved")
    turned = [rotated(c, x, cos, sin, n, width, pairs) for x, n in zip((q, k), heads, strict=True)]
    return turned[0], turned[1]


def _cache(c: Context, number: int, new: Value, lengths: _Lengths) -> Value:
    """The cache [B, groups, its length, D] with the new entries behind those that count."""
    past = c.optional(number)
    batch, groups, queries, depth = new.type.dims
    room = lengths.total if past is None else max(past.type.dims[2], lengths.total)
    if past is None and room == queries:
        return new
    known = lengths.firsts.constant
    if past is not None:
        dims = (batch, groups, past.type.dims[2], depth)
        c.require(past.type.dims == dims, f"has the past {past.type}, not {list(dims)}")
        held = past.type.dims[2]
        if known is not None and (known == held).all() and held + queries == room:
            return extended(c, past, new)
    more = room - (0 if past is None else past.type.dims[2])
    zeros = c.scalar(0, new.type.dtype)
    empty = None if more == 0 else c.add(Expand((batch, groups, more, depth)), zeros)
    if past is None or empty is None:
        buffer = past if empty is None else empty
        assert buffer is not None, "a cache without a past has room"
    else:
        buffer = c.add(Concat(2), past, empty)
    found = written(c, buffer, c.cast(new, buffer.type.dtype), lengths.firsts, 2, ring=False)
    # What nobody wrote may be anything, NaN, too.
    counts = c.reshape(before(c, lengths.filled, room), (batch, 1, room, 1))
    return c.add(Where(), counts, found, c.scalar(0, found.type.dtype))


def _first_keys(c: Context, cache: Value, total: int) -> Value:
    """The part of a cache that the longest sequence fills."""
    if cache.type.dims[2] == total:
        return cache
    return c.add(Slice((0,), (total,), (2,)), cache)


def _scoring(c: Context, depth: int) -> Scoring:
    sink = c.optional(11)
    if sink is None and c.int("smooth_softmax", 0) == 1:
        sink = c.constant(np.zeros(1, np.float32), "sink")
    scale = c.float("scale", 0.0) or depth**-0.5
    return Scoring(float(scale), c.float("softcap", 0.0), None, sink)


def _mask(c: Context, queries: int, lengths: _Lengths) -> Value | None:
    mask = Mask(c)
    window = c.int("local_window_size", -1)
    places = Positions(queries, lengths.total, lengths.firsts)
    if c.flag("causal", True):
        places.window(c, mask, window - 1 if window > 0 else -1, 0)
    mask.allow(before(c, lengths.ends, lengths.total))
    if c.optional(16) is not None:
        rows = before(c, c.cast(c.value(16), DType.INT32), queries)
        mask.allow(c.transpose(rows, (0, 1, 3, 2)))
    add_bias(c, mask, 10)
    return mask.bias(DType.FLOAT32)


def _output(
    c: Context, heads: tuple[Value, Value, Value], how: Scoring, bias: Value | None
) -> tuple[Value, Item]:
    """The output [B, heads, S, D], and the scores or weights where they are asked for."""
    q, k, v = heads
    kind, kept = q.type.dtype, c.int("qk_output", 0)
    if is_plain(how) and not (kept and c.wants(3)):
        bias = None if bias is None else c.cast(bias, kind)
        return attended(c, q, k, v, q.type.dims[1], k.type.dims[1], how, bias), None
    q, k, v = (c.cast(x, DType.FLOAT32) for x in heads)
    steps = stages(c, q, k, v, how, bias)
    scores = steps.weights
    if kept == 1:
        zero = c.scalar(0, DType.FLOAT32)
        hidden = c.add(Equal(), steps.biased, c.scalar(-np.inf, DType.FLOAT32))
        scores = c.add(Where(), hidden, zero, steps.biased)
    return c.cast(steps.output, kind), c.cast(scores, kind) if kept else None
