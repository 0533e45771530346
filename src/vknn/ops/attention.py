"""Attention, rotary embeddings and linear attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, broadcast, fits, require, require_dtype, require_float
from vknn.ops.reduction import softmax


@attributes
class Attention(Op):
    """softmax(scale * q k^T + mask) v for each head.

    Inputs q [B, S, heads * D], k [B, T, kv_heads * D], v [B, T, kv_heads * Dv], one head after the
    other in the last axis, and output [B, S, heads * Dv]; or, of rank 4, q [B, heads, S, D],
    k [B, kv_heads, T, D], v [B, kv_heads, T, Dv] and output [B, heads, S, Dv]. mask (optional) is
    added, broadcast to [B, heads, S, T]. Head h reads head h // (heads / kv_heads) of k and v;
    ``kv_heads`` 0: as many as q has. A row whose scores all are -inf gives NaN, or 0 with
    ``empty_zero``.
    """

    num_heads: int
    scale: float
    kv_heads: int = 0
    empty_zero: bool = False

    @property
    def groups(self) -> int:
        """Heads of k and v."""
        return self.kv_heads or self.num_heads

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        q, k, v, mask = arguments(self, inputs, 3, optional=1)
        require_float(self, q)
        require_dtype(self, q.dtype, k, v, mask)
        heads, groups = self.num_heads, self.groups
        if heads < 1 or groups < 1 or heads % groups:
            raise ShapeError(f"Attention: {groups} heads of k and v do not suit {heads} heads")
        require(q.rank in (3, 4), f"Attention: q is {q}, not of rank 3 or 4")
        split = [
            self._split(name, t, q.rank, n)
            for name, t, n in (("q", q, heads), ("k", k, groups), ("v", v, groups))
        ]
        (b, s, d), (kb, t, kd), (vb, vt, vd) = split
        batch = fits(b, kb) and fits(b, vb)
        if not batch or not fits(d, kd) or not fits(t, vt):
            raise ShapeError(f"Attention: q {q}, k {k} and v {v} do not fit together")
        if mask is not None:
            scores = (b, heads, s, t)
            spread = broadcast(self, mask.shape, scores)
            require(spread == scores, f"Attention: mask {mask} does not broadcast to {scores}")
        if q.rank == 4:
            return (q.with_shape((*q.shape[:3], vd)),)
        return (q.with_shape((b, s, None if vd is None else heads * vd)),)

    def _split(
        self, name: str, type_: TensorType, rank: int, heads: int
    ) -> tuple[int | None, int | None, int | None]:
        """Batch, sequence, width of a head."""
        require(type_.rank == rank, f"Attention: {name} is {type_}, not of rank {rank} as q")
        width = type_.shape[-1]
        if rank == 4:
            require(fits(type_.shape[1], heads), f"Attention: {name} is {type_}, not {heads} heads")
            return type_.shape[0], type_.shape[2], width
        if width is not None and width % heads:
            raise ShapeError(f"Attention: {heads} heads do not divide {name}, {type_}")
        return type_.shape[0], type_.shape[1], None if width is None else width // heads

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        q, k, v, mask = arguments(self, inputs, 3, optional=1)
        queries, shared = self._heads(q, self.num_heads), self.num_heads // self.groups
        keys, values = self._heads(k, self.groups), self._heads(v, self.groups)
        y = np.empty((*queries.shape[:3], values.shape[-1]), q.dtype)
        if mask is not None:
            mask = np.broadcast_to(mask, (*queries.shape[:3], keys.shape[2]))
        for batch, head in np.ndindex(*queries.shape[:2]):
            key, value = (t[batch, head // shared].astype(np.float64) for t in (keys, values))
            for rows in blocks(queries.shape[2], 32 * max(1, keys.shape[2])):
                place = batch, head, rows
                seen = None if mask is None else mask[place]
                y[place] = self._rows(queries[place].astype(np.float64), key, value, seen)
        if q.ndim == 3:  # [B, heads, S, Dv] -> [B, S, heads * Dv]
            y = y.swapaxes(1, 2).reshape(*q.shape[:2], self.num_heads * y.shape[-1])
        return (y,)

    def _rows(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any) -> np.ndarray:
        """Rows of the result of one head, for these rows of q."""
        with np.errstate(all="ignore"):
            scores = self.scale * (q @ k.T)
            if mask is not None:
                # Rounded as engines round it: -1e9 hides the scores themselves, so that a row of
                # which all is hidden gives the mean.
                scores = (scores + mask).astype(np.result_type(mask.dtype, np.float32), copy=False)
            weights = softmax(scores, -1)
            if self.empty_zero:
                weights[np.isneginf(scores).all(-1)] = 0
            return weights @ v

    @staticmethod
    def _heads(x: np.ndarray, heads: int) -> np.ndarray:
        """A tensor as [B, heads, S, D]."""
        if x.ndim == 4:
            return x
        return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


@attributes
class RotaryEmbedding(Op):
    """Rotations of pairs of numbers: (x, y) becomes (x cos - y sin, x sin + y cos).

    Inputs x [B, ..., S, D], cos and sin, both [S, D / 2] or [B, S, D / 2]. Pair i is elements i and
    i + D / 2 of a row, or with ``interleaved`` elements 2i and 2i + 1.
    """

    interleaved: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, cos, sin = arguments(self, inputs, 3)
        require_float(self, x)
        require_dtype(self, x.dtype, cos, sin)
        require(x.rank >= 2, f"RotaryEmbedding: {x} has no rows")
        s, d = x.shape[-2:]
        if d is not None and d % 2:
            raise ShapeError(f"RotaryEmbedding: rows of {x} are not whole pairs")
        half = None if d is None else d // 2
        wanted = (x.shape[0], s, half) if cos.rank == 3 and x.rank > 2 else (s, half)
        for name, table in (("cos", cos), ("sin", sin)):
            good = table.rank == len(wanted) and all(map(fits, table.shape, wanted))
            require(good, f"RotaryEmbedding: {name} {table} does not suit {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, cos, sin = arguments(self, inputs, 3)
        cos, sin = (self._spread(t.astype(np.float64), x.ndim) for t in (cos, sin))
        pairs = x.astype(np.float64).reshape(*x.shape[:-1], *self._pairs(x.shape[-1]))
        axis = -1 if self.interleaved else -2
        a, b = np.take(pairs, 0, axis), np.take(pairs, 1, axis)
        with np.errstate(all="ignore"):
            turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis)
        return (turned.reshape(x.shape).astype(x.dtype),)

    def _pairs(self, width: int) -> tuple[int, int]:
        return (width // 2, 2) if self.interleaved else (2, width // 2)

    @staticmethod
    def _spread(table: np.ndarray, rank: int) -> np.ndarray:
        """[B, S, D / 2] with axes of size 1 behind the batch."""
        if table.ndim == 2:
            return table
        return table.reshape(len(table), *[1] * (rank - 3), *table.shape[1:])


@attributes
class LinearAttention(Op):
    """Attention with a state S [Dk, Dv] for each head of k and v, in place of weights.

    At each step S is multiplied by exp(decay), then k (v - S^T k)^T * beta is added to it, or k v^T
    where there is no beta; the output is scale * S^T q.

    Inputs q [B, T, num_heads * Dk], k [B, T, kv_heads * Dk], v [B, T, kv_heads * Dv], S before the
    first step [B, kv_heads, Dk, Dv], decay (optional) [B, T, kv_heads] or, a number for each row of
    S, [B, T, kv_heads * Dk], and beta (optional) [B, T, kv_heads]. Outputs [B, T, num_heads * Dv]
    and S behind the last step. Head h reads state h // (num_heads / kv_heads).
    """

    num_heads: int
    kv_heads: int
    scale: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        q, k, v, state, decay, beta = arguments(self, inputs, 4, optional=2)
        require_float(self, q)
        require_dtype(self, q.dtype, k, v, state, decay, beta)
        heads, groups = self.num_heads, self.kv_heads
        good = groups > 0 and heads > 0 and heads % groups == 0
        require(good, f"LinearAttention: {groups} heads of k and v do not suit {heads} heads")
        require(state.rank == 4, f"LinearAttention: the state is {state}, not of rank 4")
        require(q.rank == 3, f"LinearAttention: q is {q}, not of rank 3")
        (b, t, _), (_, _, depth, width) = q.shape, state.shape
        wanted = {
            "q": (q, heads, depth), "k": (k, groups, depth), "v": (v, groups, width),
            "beta": (beta, groups, 1),
        }  # fmt: skip
        for name, (type_, count, each) in wanted.items():
            if type_ is not None:
                last = None if each is None else count * each
                good = type_.rank == 3 and all(map(fits, type_.shape, (b, t, last)))
                require(good, f"LinearAttention: {name} is {type_}, not {(b, t, last)}")
        require(
            fits(state.shape[0], b) and fits(state.shape[1], groups),
            f"LinearAttention: the state is {state}",
        )
        if decay is not None:
            good = decay.rank == 3 and fits(decay.shape[0], b) and fits(decay.shape[1], t)
            each = None if depth is None else groups * depth
            good = good and (fits(decay.shape[2], groups) or fits(decay.shape[2], each))
            require(good, f"LinearAttention: decay is {decay}")
        return q.with_shape((b, t, None if width is None else heads * width)), state

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        q, k, v, first, decay, beta = arguments(self, inputs, 4, optional=2)
        groups = self.kv_heads
        sharing = self.num_heads // groups
        (batch, steps, _), (_, _, depth, width) = q.shape, first.shape
        queries = q.astype(np.float64).reshape(batch, steps, groups, sharing, depth)
        keys = k.astype(np.float64).reshape(batch, steps, groups, depth)
        values = v.astype(np.float64).reshape(batch, steps, groups, width)
        state, outputs = first.astype(np.float64), np.empty((batch, steps, groups, sharing, width))
        with np.errstate(all="ignore"):
            for t in range(steps):
                run_limits.check()
                key, value = keys[:, t, :, :, None], values[:, t, :, None]
                if decay is not None:
                    each = decay.shape[2] // groups
                    rate = decay[:, t].astype(np.float64).reshape(batch, groups, each, 1)
                    state = state * np.exp(rate)
                if beta is not None:
                    rate = beta[:, t].astype(np.float64).reshape(batch, groups, 1, 1)
                    value = rate * (value - (state * key).sum(-2, keepdims=True))
                state = state + key * value
                outputs[:, t] = self.scale * (queries[:, t] @ state)
        output = outputs.reshape(batch, steps, self.num_heads * width)
        return output.astype(q.dtype), state.astype(first.dtype)
