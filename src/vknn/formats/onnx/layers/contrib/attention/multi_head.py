"""Attention of queries, keys and values that are projected already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.cache import written
from vknn.formats.onnx.layers.attention.heads import extended, joined_heads
from vknn.formats.onnx.layers.attention.masks import Mask
from vknn.formats.onnx.layers.attention.scores import Scoring, attended, stages
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.layers.contrib.attention.beams import of_beams
from vknn.formats.onnx.layers.contrib.attention.masks import add_bias, add_keys
from vknn.formats.onnx.layers.contrib.attention.projected import all_split, biased, parts
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew


@dataclass(frozen=True)
class Ports:
    """The numbers of inputs that both operators have, in orders of their own."""

    bias: int
    mask: int
    attention_bias: int
    past: int
    length: int
    beams: int


_PLAIN = Ports(bias=3, mask=4, attention_bias=5, past=6, length=8, beams=9)
_DECODER = Ports(bias=10, mask=3, attention_bias=4, past=5, length=7, beams=9)


@operator("MultiHeadAttention", 1, inputs=(1, 10), outputs=(1, 4), domain=MICROSOFT)
def multi_head_attention(c: Context) -> list[Item]:
    """Attention of projected queries, keys and values, with a cache before the keys"""
    return _attention(c, _PLAIN)


@operator("DecoderMaskedMultiHeadAttention", 1, inputs=(1, 11), outputs=(1, 4), domain=MICROSOFT)
def decoder_masked_multi_head_attention(c: Context) -> list[Item]:
    """MultiHeadAttention of one query for each of the batch, whose beams may share their caches"""
    return _attention(c, _DECODER)


def _attention(c: Context, ports: Ports) -> list[Item]:
    heads = c.int("num_heads")
    c.require(heads > 0, f"has {heads} heads")
    q, k, v = _inputs(c, ports, heads)
    past = [
        shaped(c, ports.past + n, name, (q.type.dims[0], heads, None, None))
        for n, name in enumerate(("past_key", "past_value"))
    ]
    c.require((past[0] is None) == (past[1] is None), "has a half of a past")
    caches: list[Item] = [k, v]
    before = 0
    if k.type.rank == 4 or past[0] is not None or any(c.wants(n) for n in (1, 2, 3)):
        q, k, v = all_split(c, (q, k, v), (heads,) * 3)
        before, k, v, caches = _with_past(c, ports, k, v)
    queries, keys = (x.type.dims[2 if k.type.rank == 4 else 1] for x in (q, k))
    mask = Mask(c)
    add_keys(c, mask, ports.mask, queries, keys)
    add_bias(c, mask, ports.attention_bias)
    if c.flag("unidirectional"):
        c.makeable(queries * keys, DType.BOOL)
        _causal(mask, queries, keys, before)
    depth = q.type.dims[-1] // (1 if q.type.rank == 4 else heads)
    how = Scoring(float(c.float("scale", 0.0) or max(depth, 1) ** -0.5))
    scores: Item = None
    if c.wants(3):
        kind = q.type.dtype
        wide = [c.cast(x, DType.FLOAT32) for x in (q, k, v)]
        steps = stages(c, wide[0], wide[1], wide[2], how, mask.bias(DType.FLOAT32))
        found = c.cast(steps.output, kind)
        lowest = c.scalar(float(np.finfo(kind.numpy).min), kind)
        scores = c.add(ew.Max(), c.cast(steps.biased, kind), lowest)
    else:
        found = attended(c, q, k, v, heads, heads, how, mask.bias(q.type.dtype))
    output = joined_heads(c, found) if found.type.rank == 4 else found
    return [output, *caches, scores]


def _causal(mask: Mask, queries: int, keys: int, before: int) -> None:
    """Restriction to keys that are not behind the query.

    The last query sees all: onnxruntime masks no keys for it, which shows where keys of another
    sequence are more than the queries.
    """
    seen = np.arange(keys) <= np.arange(queries)[:, None] + before
    seen[-1:] = True
    mask.allow(seen)


def _inputs(c: Context, ports: Ports, heads: int) -> tuple[Value, Value, Value]:
    """q [B, S, heads * D], k and v of that form or with their heads apart, with the bias added."""
    q, k, v, bias = c.x, c.optional(1), c.optional(2), shaped(c, ports.bias, "bias", (None,))
    if k is None and q.type.rank == 5:  # [B, S, heads, 3, D]
        q, k, v = _unpacked(c, q, heads, 3)
    elif k is None:  # one behind the other
        c.require(q.type.rank == 3, f"has the packed query {q.type}, not [batch, length, width]")
        width = q.type.dims[-1] // 3
        q, k, v = parts(c, q, (width, width, q.type.dims[-1] - 2 * width))
    elif v is None:
        k, v = _unpacked(c, k, heads, 2)  # [B, T, heads, 2, D]
    assert v is not None, "the cases above leave none"
    good = q.type.rank == 3 and k.type.rank == v.type.rank and k.type.rank in (3, 4)
    c.require(good, f"takes no {q.type}, {k.type}, {v.type}")
    good = k.type.dims[0] == v.type.dims[0] == q.type.dims[0] and q.type.dims[2] % heads == 0
    c.require(good, f"has {q.type}, {k.type}, {v.type} for {heads} heads: batches, heads differ")
    if k.type.rank == 4:
        c.require(k.type.dims[1] == heads, f"has the keys {k.type} for {heads} heads")
        return biased(c, (q, None, None), bias)[0] or q, k, v
    made = biased(c, (q, k, v), bias)
    return made[0] or q, made[1] or k, made[2] or v


def _unpacked(c: Context, x: Value, heads: int, count: int) -> list[Value]:
    """[B, S, heads, count, D] as ``count`` tensors [B, S, heads * D]."""
    good = x.type.rank == 5 and x.type.dims[2:4] == (heads, count)
    c.require(good, f"has packed {x.type} for {heads} heads")
    batch, length, _, _, depth = x.type.dims
    apart = c.reshape(c.transpose(x, (0, 1, 3, 2, 4)), (batch, length, count * heads * depth))
    return parts(c, apart, (heads * depth,) * count)


def _with_past(
    c: Context, ports: Ports, k: Value, v: Value
) -> tuple[int, Value, Value, list[Item]]:
    """The length of the cache, all keys and values [B, heads, T, D], and the new caches."""
    past = [c.optional(ports.past + n) for n in (0, 1)]
    if past[0] is None or past[1] is None:
        return 0, k, v, [k, v]
    before, shared = past[0].type.dims[2], c.optional(ports.length) is not None
    if shared:
        room, before = before - k.type.dims[2], int(c.number(ports.length, "past_sequence_length"))
        c.require(0 <= before <= room, f"has a past of {before} in {past[0].type}")
    whole: list[Value] = []
    caches: list[Item] = []
    for old, new in zip(past, (k, v), strict=True):
        assert old is not None, "both are there"
        if shared:
            first = c.constant(np.full(new.type.dims[0], before, np.int32), "first")
            cache = written(c, old, new, first, 2, ring=False)
        else:
            cache = extended(c, old, new)
        caches.append(cache)
        whole.append(of_beams(c, cache, before, before + new.type.dims[2], ports.beams))
    return before, whole[0], whole[1], caches
