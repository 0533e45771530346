"""Attention of the default domain."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.heads import extended, split_heads
from vknn.formats.onnx.layers.attention.masks import Mask, Positions, before
from vknn.formats.onnx.layers.attention.scores import (
    Scoring,
    attended,
    is_plain,
    output_of,
    stages,
)
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.movement.shape import Concat, Expand


@operator("Attention", 23, inputs=(3, 6), outputs=(1, 4), any_type=True)
@operator("Attention", 24, 25, inputs=(3, 7), outputs=(1, 4), any_type=True)
def attention(c: Context) -> list[Item]:
    """softmax(scale * q k^T + mask) v for each head, keys and values with a cache before them"""
    given = [c.value(number) for number in range(3)]
    rank, kinds = given[0].type.rank, [v.type.dtype for v in given]
    c.require(rank in (3, 4), f"takes no query {given[0].type}")
    batch = given[0].type.dims[0]
    same = all(v.type.rank == rank and v.type.dims[0] == batch for v in given)
    c.require(same, f"takes no {', '.join(str(v.type) for v in given)} together")
    c.require((c.optional(4) is None) == (c.optional(5) is None), "has a half of a past")
    floats = all(kind.is_float or kind is DType.BFLOAT16 for kind in kinds)
    c.require(floats, f"takes no {', '.join(str(v.type) for v in given)}")
    wide = DType.FLOAT64 if kinds[0] is DType.FLOAT64 else DType.FLOAT32
    heads, groups = _head_counts(c, given)
    apart = rank == 4 or c.optional(4) is not None or any(c.wants(n) for n in (1, 2, 3))
    how = Scoring(_scale(c, given[0], heads), c.float("softcap", 0.0), _precision(c, wide))
    apart = apart or not is_plain(how)
    if apart and rank == 3:
        given = [split_heads(c, v, n) for v, n in zip(given, (heads, groups, groups), strict=True)]
    present = [extended(c, c.optional(n), v) for n, v in ((4, given[1]), (5, given[2]))]
    fused = is_plain(how) and not c.wants(3)
    computed = kinds[0] if fused and kinds[0].is_float else wide
    q, k, v = (c.cast(x, computed) for x in (given[0], *present))
    queries, keys = (x.type.dims[2 if apart else 1] for x in (q, k))
    bias = _mask(c, queries, keys).bias(computed)
    scores: Value | None = None
    if fused:
        found = attended(c, q, k, v, heads, groups, how, bias)
    else:
        steps = stages(c, q, k, v, how, bias)
        found = steps.output
        mode = c.int("qk_matmul_output_mode", 0)
        c.require(0 <= mode <= 3, f"has the qk_matmul_output_mode {mode}")
        scores = (steps.scaled, steps.capped, steps.biased, steps.weights)[mode]
        scores = c.cast(scores, kinds[0])
    found = output_of(c, c.cast(found, kinds[0]), rank)
    return [found, *(present if apart else (None, None)), scores]


def _head_counts(c: Context, given: list[Value]) -> tuple[int, int]:
    """Heads of the query, and those of keys and values."""
    if given[0].type.rank == 4:
        c.require(given[1].type.dims[1] == given[2].type.dims[1], "keys and values differ in heads")
        heads, groups = given[0].type.dims[1], given[1].type.dims[1]
    else:
        heads, groups = c.int("q_num_heads"), c.int("kv_num_heads")
    c.require(heads > 0 and groups > 0, f"has {heads} heads, {groups} of keys")
    c.require(heads % groups == 0, f"{groups} heads of keys do not divide {heads}")
    return heads, groups


def _scale(c: Context, q: Value, heads: int) -> float:
    depth = q.type.dims[-1] // (1 if q.type.rank == 4 else heads)
    return float(c.float("scale", 1.0 / math.sqrt(max(depth, 1))))


def _precision(c: Context, wide: DType) -> DType | None:
    """Dtype of the softmax where it is less than what all is computed in, else None."""
    found = c.dtype("softmax_precision", None)
    if found is None or found is DType.FLOAT64 or found is wide:
        return None
    known = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
    c.require(found in known, f"has the softmax_precision {found.value}")
    return DType(found)


def _mask(c: Context, queries: int, keys: int) -> Mask:
    """All that decides which keys a query sees."""
    mask, lengths = Mask(c), c.optional(6)
    past = c.optional(4)
    offset: int | Value = 0 if past is None else past.type.dims[2]
    if lengths is not None:
        c.require(past is None, "has nonpad_kv_seqlen and a past")
        batch = c.x.type.dims[0]
        c.require(lengths.type.size == batch, f"has {lengths.type} lengths for a batch of {batch}")
        lengths = c.cast(c.reshape(lengths, (batch,)), DType.INT32)
        offset = c.add(ew.Sub(), lengths, c.scalar(queries, DType.INT32))
        mask.allow(before(c, lengths, keys))
    places = Positions(queries, keys, offset)
    if c.flag("is_causal"):
        places.causal(c, mask)
    if c.version >= 25:
        sides = [c.int(f"{side}_window_size", -1) for side in ("left", "right")]
        c.require(min(sides) >= -1, f"has windows of {sides}")
        places.window(c, mask, *sides)
    if c.optional(3) is not None:
        _given_mask(c, mask, c.value(3), keys)
    return mask


def _given_mask(c: Context, mask: Mask, given: Value, keys: int) -> None:
    """The input attn_mask; keys that it is too short for are hidden."""
    c.require(given.type.rank <= 4, f"takes no mask {given.type}")
    if given.type.rank and given.type.dims[-1] < keys:
        (*lead, length), kind = given.type.dims, given.type.dtype
        if kind is not DType.BOOL:
            given = c.cast(given, DType.FLOAT64 if kind is DType.FLOAT64 else DType.FLOAT32)
        number = False if kind is DType.BOOL else -np.inf
        rest = c.scalar(number, given.type.dtype)
        given = c.add(Concat(len(lead)), given, c.add(Expand((*lead, keys - length)), rest))
    if given.type.dtype is DType.BOOL:
        mask.allow(given)
    else:
        wide = DType.FLOAT64 if given.type.dtype is DType.FLOAT64 else DType.FLOAT32
        mask.add(c.cast(given, wide))
