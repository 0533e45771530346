"""Tolerances of attention and rotary embeddings: magnitude and units (see tolerance)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.crosscheck.tolerance_products import finite
from vknn.crosscheck.tolerance_rows import Arrays, Rule, walk
from vknn.graph import Op
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding

#: Of a mask; what lies below hides keys.
_MOST_MASK = 1e5


def _attention(op: Attention, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    q, k, v = (finite(np.asarray(a, np.float64)) for a in inputs[:3])
    apart = q.ndim == 4
    depth = q.shape[-1] // (1 if apart else op.num_heads)
    rows = (a.reshape(*a.shape[:-1], -1, depth) if depth else a for a in (q, k))
    lengths = (np.linalg.norm(a, axis=-1).max(initial=0.0) for a in rows)
    scores = abs(op.scale) * math.prod(lengths)  # at most: Cauchy and Schwarz
    largest = np.abs(v).max(axis=-2, keepdims=True, initial=0.0)
    if op.groups != op.num_heads:
        heads = largest if apart else largest.reshape(len(v), op.groups, -1)
        largest = np.repeat(heads, op.num_heads // op.groups, axis=1)
        largest = largest if apart else largest.reshape(len(v), 1, -1)
    # Scores near the largest count, however large they are: exp sees what they are rounded to. So
    # does a mask that lowers all keys of a query.
    mask = None if len(inputs) < 4 else inputs[3]
    lowered: Any = 0.0
    if mask is not None and mask.size:
        lowered = np.minimum(np.abs(finite(mask.max(axis=-1, keepdims=True))), _MOST_MASK)
        lowered = lowered if apart else lowered.max()
    return largest * (1.0 + scores + lowered), walk(math.sqrt(depth) + math.sqrt(k.shape[-2]))


def _rotary(op: RotaryEmbedding, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The sizes of both terms, which may cancel."""
    x, cos, sin = (np.abs(_wide(inputs, number)) for number in range(3))
    sums = [op.reference(x, cos, signed)[0] for signed in (sin, -sin)]
    return np.maximum(*sums), 4.0


def _linear(op: LinearAttention, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Norms of states and of what is rounded: a step turns the error that there is by its own
    matrix, (I - beta k k^T) exp(decay), and adds one of the size of its terms, in any direction.
    """
    q, k, v, now, decay, beta = (_wide(inputs, number) for number in range(6))
    groups, sharing = op.kv_heads, op.num_heads // op.kv_heads
    (batch, steps, _), (_, _, depth, width) = q.shape, now.shape
    queries = q.reshape(batch, steps, groups, sharing, depth)
    found, error = np.zeros((batch, steps, groups, sharing, width)), _norm(now)
    for t in range(steps):
        key = k[:, t].reshape(batch, groups, depth, 1)
        value, growth = v[:, t].reshape(batch, groups, 1, width), np.ones((batch, groups))
        if decay.size:
            rate = np.exp(decay[:, t].reshape(batch, groups, -1, 1))
            now, growth = now * rate, rate.max(axis=(2, 3))
        size = np.abs(value)
        if beta.size:
            rate = beta[:, t].reshape(batch, groups, 1, 1)
            old = now * key
            size = np.abs(rate) * (size + np.abs(old).sum(-2, keepdims=True))
            value = rate * (value - old.sum(-2, keepdims=True))
            along = np.abs(1.0 - rate * (key**2).sum(-2, keepdims=True))
            growth = growth * np.maximum(1.0, along[..., 0, 0])
        own = _norm(np.abs(now) + np.abs(key) * size)
        now, error = now + key * value, np.hypot(growth * error, own)
        lengths = np.sqrt((queries[:, t] ** 2).sum(-1, keepdims=True))
        found[:, t] = abs(op.scale) * lengths * error[..., None, None]
    last = np.broadcast_to(error[..., None, None], now.shape)
    magnitude = last if y.ndim == 4 else found.reshape(y.shape)
    return np.where(np.isfinite(magnitude), magnitude, 0.0), walk(math.sqrt(depth))


def _norm(x: np.ndarray) -> np.ndarray:
    """Norms of matrices."""
    return np.sqrt((x**2).sum(axis=(-2, -1)))


def _wide(inputs: Any, number: int) -> np.ndarray:
    """An input in float64, infinities and NaN as zeros; nothing where it is absent."""
    given = inputs[number] if number < len(inputs) else None
    if given is None:
        return np.zeros(0)
    found = np.asarray(given, np.float64)
    return np.where(np.isfinite(found), found, 0.0)


RULES: dict[type[Op], Rule] = {
    Attention: _attention,
    LinearAttention: _linear,
    RotaryEmbedding: _rotary,
}
