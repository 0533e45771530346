"""Attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType
from vknn.ops.checks import arguments, broadcast, fits, require, require_dtype, require_float
from vknn.ops.reduction import softmax


@dataclass(frozen=True)
class Attention(Op):
    """softmax(scale * q k^T + mask) v for each head.

    Inputs q [B, S, E], k [B, T, E], v [B, T, Ev], mask (optional, added, broadcast to
    [B, heads, S, T]); output [B, S, Ev]. Head h takes slice h of the last axis of q, k and v.
    """

    num_heads: int
    scale: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        q, k, v, mask = arguments(self, inputs, 3, optional=1)
        require_float(self, q)
        require_dtype(self, q.dtype, k, v, mask)
        for name, type_ in (("q", q), ("k", k), ("v", v)):
            require(type_.rank == 3, f"Attention: {name} is {type_}, not of rank 3")
            width = type_.shape[2]
            if self.num_heads < 1 or (width is not None and width % self.num_heads):
                raise ShapeError(f"Attention: {self.num_heads} heads do not divide {name}, {type_}")
        batch = all(fits(q.shape[0], t.shape[0]) for t in (k, v))
        if not batch or not fits(q.shape[2], k.shape[2]) or not fits(k.shape[1], v.shape[1]):
            raise ShapeError(f"Attention: q {q}, k {k} and v {v} do not fit together")
        if mask is not None:
            scores = (q.shape[0], self.num_heads, q.shape[1], k.shape[1])
            spread = broadcast(self, mask.shape, scores)
            require(spread == scores, f"Attention: mask {mask} does not broadcast to {scores}")
        return (q.with_shape((*q.shape[:2], v.shape[2])),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        q, k, v, mask = arguments(self, inputs, 3, optional=1)
        with np.errstate(all="ignore"):
            scores = self.scale * (self._heads(q) @ self._heads(k).swapaxes(-1, -2))
            if mask is not None:
                scores = scores + mask
            y = softmax(scores, -1) @ self._heads(v)
        # [B, heads, S, Ev/heads] -> [B, S, Ev]
        return (y.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2]).astype(q.dtype),)

    def _heads(self, x: np.ndarray) -> np.ndarray:
        """[B, S, E] -> [B, heads, S, E/heads], in float64."""
        b, s, e = x.shape
        split = x.astype(np.float64).reshape(b, s, self.num_heads, e // self.num_heads)
        return split.swapaxes(1, 2)
