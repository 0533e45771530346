"""GroupQueryAttention: attention whose queries share keys, with rotations and a cache inside."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.heads import joined_heads, split_heads
from vknn.formats.onnx.layers.attention.masks import Mask, Positions, before
from vknn.formats.onnx.layers.attention.rotary import rotated, tables_at, tables_from
from vknn.formats.onnx.layers.attention.scores import Scoring, attended, is_plain, stages
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.layers.contrib.attention.caches import (
    Lengths,
    cached,
    first_keys,
    lengths_of,
)
from vknn.formats.onnx.layers.contrib.attention.masks import add_bias
from vknn.formats.onnx.layers.contrib.attention.projected import sharing_inputs
from vknn.formats.onnx.layers.contrib.attention.sliding import Sliding
from vknn.formats.onnx.layers.contrib.attention.stored import stored_as
from vknn.formats.onnx.layers.normalization import rms_normalized
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.movement.shape import Slice


@operator("GroupQueryAttention", 1, inputs=(7, 17), outputs=(1, 4), domain=MICROSOFT, any_type=True)
def group_query_attention(c: Context) -> list[Item]:
    """Attention whose queries share keys, with rotations and a cache inside"""
    heads, groups = c.int("num_heads"), c.int("kv_num_heads")
    c.require(groups > 0 and heads > 0 and heads % groups == 0, f"{heads} heads, {groups} of keys")
    kind = c.x.type.dtype
    computed = DType.FLOAT32 if kind is DType.BFLOAT16 else kind
    q, k, v = (c.cast(x, computed) for x in sharing_inputs(c, heads, groups))
    _check_rest(c, q.type.dims, heads)
    lengths, mask = lengths_of(c, q.type.dims[1]), Mask(c)
    q, k = (_normalized(c, x, n, i) for x, n, i in ((q, heads, 14), (k, groups, 15)))
    if c.flag("do_rotary"):
        q, k = _turned(c, q, k, (heads, groups), lengths)
    q, k, v = (split_heads(c, x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    caches, (k, v) = _cached(c, k, v, lengths, mask)
    how, bias = _scoring(c, q.type.dims[3]), mask.bias(DType.FLOAT32)
    k, v = (c.cast(x, computed) for x in (k, v))
    found, scores = _output(c, (q, k, v), how, bias)
    scores = None if scores is None else c.cast(scores, kind)
    return [c.cast(joined_heads(c, found), kind), *caches, scores]


def _check_rest(c: Context, dims: tuple[int, ...], heads: int) -> None:
    """Check of the shapes of what comes with queries [B, S, heads * D]."""
    batch, queries, width = dims
    for number, name, form in (
        (7, "cos_cache", (None, None)), (8, "sin_cache", (None, None)),
        (9, "position_ids", (batch, queries)), (11, "head_sink", (heads,)),
        (14, "q_norm_weight", (width // heads,)), (15, "k_norm_weight", (width // heads,)),
        (16, "query_seqlens", (batch,)),
    ):  # fmt: skip
        shaped(c, number, name, form)
    shaped(c, 10, "attention_bias", ((1, batch), (1, heads), queries, None))


def _cached(
    c: Context, k: Value, v: Value, lengths: Lengths, mask: Mask
) -> tuple[list[Value], list[Value]]:
    """The caches after the step, and the keys and values to look at; the mask hides what is none.

    k and v: those of the step, [B, groups, S, D].
    """
    (_, groups, queries, depth), past = k.type.dims, [c.optional(n) for n in (3, 4)]
    forms = [stored_as(c, *pair, groups, depth) for pair in zip("kv", past, strict=True)]
    new = [form.pack(c, x) for form, x in zip(forms, (k, v), strict=True)]
    if c.flag("sliding_window_cache"):
        old = [c.value(n) for n in (3, 4)]
        sliding = Sliding(c, old[0], queries, lengths)
        pairs = [sliding.grown(c, *pair) for pair in zip(old, new, strict=True)]
        sliding.mask(c, mask, c.optional(10))
    else:
        caches = [cached(c, *pair, lengths) for pair in zip(past, new, strict=True)]
        pairs = [(cache, first_keys(c, cache, lengths.total)) for cache in caches]
        _add_places(c, mask, queries, lengths)
    if c.optional(16) is not None:
        rows = before(c, c.cast(c.value(16), DType.INT32), queries)
        mask.allow(c.transpose(rows, (0, 1, 3, 2)))
    keys = [form.unpack(c, x) for form, (_, x) in zip(forms, pairs, strict=True)]
    return [cache for cache, _ in pairs], keys


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
    c: Context, q: Value, k: Value, heads: tuple[int, int], lengths: Lengths
) -> tuple[Value, Value]:
    """Queries and keys turned by the angles of their places."""
    (batch, queries), tables = q.type.dims[:2], (c.value(7), c.value(8))
    given, firsts = c.optional(9), lengths.firsts
    if given is not None and (queries != lengths.total or c.optional(16) is not None):
        c.require(given.type.dims == (batch, queries), f"has the places {given.type}")
        tables = tables_at(c, 9, *tables)
    else:
        if given is not None:  # of the first step, the first place counts alone
            row = c.reshape(c.cast(given, DType.INT32), (given.type.size,))
            firsts = c.add(Slice((0,), (1,), (0,)), row)
        tables = tables_from(c, firsts, batch, queries, *tables)
    width, pairs = 2 * tables[0].type.dims[2], c.flag("rotary_interleaved")
    turned = [rotated(c, x, *tables, n, width, pairs) for x, n in zip((q, k), heads, strict=True)]
    return turned[0], turned[1]


def _scoring(c: Context, depth: int) -> Scoring:
    sink = c.optional(11)
    if sink is None and c.int("smooth_softmax", 0) == 1:
        sink = c.constant(np.zeros(1, np.float32), "sink")
    scale = c.float("scale", 0.0) or max(depth, 1) ** -0.5
    return Scoring(float(scale), c.float("softcap", 0.0), None, sink)


def _add_places(c: Context, mask: Mask, queries: int, lengths: Lengths) -> None:
    """Restriction to the keys of each sequence, up to each query's place; the bias of the node."""
    window = c.int("local_window_size", -1)
    places = Positions(queries, lengths.total, lengths.firsts)
    if c.flag("causal", True):
        places.window(c, mask, window - 1 if window > 0 else -1, 0)
    mask.allow(before(c, lengths.ends, lengths.total))
    add_bias(c, mask, 10)


def _output(
    c: Context, heads: tuple[Value, Value, Value], how: Scoring, bias: Value | None
) -> tuple[Value, Value | None]:
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
