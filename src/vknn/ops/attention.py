"""Attention and rotary embeddings."""

from __future__ import annotations

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
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
        with np.errstate(all="ignore"):
            keys = self._heads(k, self.groups).swapaxes(-1, -2)
            scores = self.scale * (self._heads(q, self.num_heads) @ keys)
            if mask is not None:
                scores = scores + mask
            weights = softmax(scores, -1)
            if self.empty_zero:
                weights[np.isneginf(scores).all(-1)] = 0
            y = weights @ self._heads(v, self.groups)
        if q.ndim == 3:  # [B, heads, S, Dv] -> [B, S, heads * Dv]
            y = y.swapaxes(1, 2).reshape(*q.shape[:2], self.num_heads * y.shape[-1])
        return (y.astype(q.dtype),)

    def _heads(self, x: np.ndarray, heads: int) -> np.ndarray:
        """A tensor as [B, num_heads, S, D] in float64, heads of k and v repeated."""
        x = x.astype(np.float64)
        if x.ndim == 3:
            x = x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)
        return np.repeat(x, self.num_heads // heads, axis=1)


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
