"""Scaled dot-product attention: by the op of that name, or step by step where more is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.formats.layer_context import LayerContext
from vknn.formats.onnx.layers.attention.heads import joined_heads
from vknn.formats.onnx.layers.attention.masks import hidden_rows
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention
from vknn.ops.elementwise.logic import Where
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Expand, Slice
from vknn.ops.reduction import Softmax


@dataclass(frozen=True)
class Scoring:
    """Rule by which scores become weights.

    ``softcap``: c of c * tanh(x / c), 0: none. ``precision``: what softmax is computed in where
    that is less than float32. ``sink``: floats [heads] or [1], scores that take their share of the
    weights and have no values.
    """

    scale: float
    softcap: float = 0.0
    precision: DType | None = None
    sink: Value | None = None


@dataclass(frozen=True)
class Stages:
    """The scores [B, heads, S, T] step by step, and the output [B, heads, S, Dv]."""

    scaled: Value
    capped: Value
    biased: Value
    weights: Value
    output: Value


def attended(
    c: LayerContext,
    q: Value,
    k: Value,
    v: Value,
    heads: int,
    groups: int,
    how: Scoring,
    bias: Value | None,
) -> Value:
    """Attention of tensors of rank 3 or 4 (see ops.attention.Attention); the output has q's.

    A row whose keys all are hidden gives zeros. ``how`` must be plain: without a cap, precision or
    sink.
    """
    c.require(groups > 0 and heads % groups == 0, f"{heads} heads cannot share {groups}")
    return c.add(Attention(heads, how.scale, groups, True), q, k, v, bias)


def is_plain(how: Scoring) -> bool:
    """True where the op Attention does all of it."""
    return how.softcap == 0.0 and how.precision is None and how.sink is None


def stages(
    c: LayerContext, q: Value, k: Value, v: Value, how: Scoring, bias: Value | None
) -> Stages:
    """Attention of q [B, H, S, D], k [B, G, T, D] and v [B, G, T, Dv], step by step."""
    batch, heads, queries, depth = q.type.dims
    groups, keys = k.type.dims[1:3]
    c.require(groups > 0 and heads % groups == 0, f"{heads} heads cannot share {groups}")
    dtype, all_dims = q.type.dtype, (batch, heads, queries, keys)
    # Heads that share keys are rows of one product.
    rows = heads // groups * queries
    shared = c.reshape(q, (batch, groups, rows, depth))
    scaled = c.add(MatMul(transpose_b=True), shared, k)
    scaled = c.add(ew.Mul(), c.reshape(scaled, all_dims), c.scalar(how.scale, dtype))
    capped = scaled
    if how.softcap:
        cap = c.scalar(how.softcap, dtype)
        capped = c.add(ew.Mul(), c.add(ew.Tanh(), c.add(ew.Div(), scaled, cap)), cap)
    biased = capped if bias is None else c.add(ew.Add(), capped, bias)
    weights = _weights(c, biased, how)
    if bias is not None and keys:
        empty = hidden_rows(c, bias)
        weights = c.add(Where(), empty, c.scalar(0, dtype), weights)
    output = c.add(MatMul(), c.reshape(weights, (batch, groups, rows, keys)), v)
    output = c.reshape(output, (batch, heads, queries, v.type.dims[3]))
    return Stages(scaled, capped, biased, weights, output)


def _weights(c: LayerContext, scores: Value, how: Scoring) -> Value:
    batch, heads, queries, keys = scores.type.dims
    dtype = scores.type.dtype
    if how.precision is not None:
        scores = c.cast(c.cast(scores, how.precision), dtype)
    if how.sink is None:
        weights = c.add(Softmax(3), scores)
    else:
        sink = c.reshape(c.cast(how.sink, dtype), (how.sink.type.size, 1, 1))
        column = c.add(Expand((batch, heads, queries, 1)), sink)
        wide = c.add(Softmax(3), c.add(Concat(3), scores, column))
        weights = c.add(Slice((0,), (keys,), (3,)), wide)
    if how.precision is not None:
        weights = c.cast(c.cast(weights, how.precision), dtype)
    return weights


def output_of(c: LayerContext, found: Value, rank: int) -> Value:
    """An output [B, heads, S, Dv] in that form, or with its heads joined where rank is 3."""
    return joined_heads(c, found) if rank == 3 and found.type.rank == 4 else found
