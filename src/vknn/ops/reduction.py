"""Ops that reduce along axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.graph import Op, TensorType
from vknn.ops.checks import arguments, normal_axis, require_float


@dataclass(frozen=True)
class Softmax(Op):
    """exp(x - max) / sum(exp(x - max)) along ``axis``"""

    axis: int = -1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        normal_axis(self, self.axis, x.rank)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (softmax(x.astype(np.float64), self.axis).astype(x.dtype),)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Softmax of float64 ``x``; a line of -inf alone gives NaN, an empty one stays empty."""
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=axis, keepdims=True)
