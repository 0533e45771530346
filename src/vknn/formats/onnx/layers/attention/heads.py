"""Heads of attention: in the last axis one after another, or on an axis of their own."""

from __future__ import annotations

from vknn.formats.layer_context import LayerContext
from vknn.graph import Value
from vknn.ops.movement.shape import Concat


def split_heads(c: LayerContext, x: Value, heads: int) -> Value:
    """[B, S, heads * D] as [B, heads, S, D]."""
    batch, length, width = x.type.dims
    c.require(heads > 0 and width % heads == 0, f"{heads} heads do not divide {x.type}")
    return c.transpose(c.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def joined_heads(c: LayerContext, x: Value) -> Value:
    """[B, heads, S, D] as [B, S, heads * D]."""
    batch, heads, length, width = x.type.dims
    return c.reshape(c.transpose(x, (0, 2, 1, 3)), (batch, length, heads * width))


def extended(c: LayerContext, past: Value | None, new: Value) -> Value:
    """The keys, or values, of a cache and behind them the new ones: [B, G, past + S, D]."""
    if past is None:
        return new
    return c.add(Concat(2), past, c.cast(new, past.type.dtype))
