"""Matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Fusion, Op, Shape, TensorType
from vknn.ops.checks import (
    arguments,
    broadcast,
    fits,
    require,
    require_dtype,
    require_float,
    require_vector,
)


@dataclass(frozen=True)
class MatMul(Op):
    """a @ b + bias.

    Inputs a [..., M, K] ([..., K, M] when ``transpose_a``), b [..., K, N] ([..., N, K] when
    ``transpose_b``), bias [N] (optional); rank 2 at least, the leading axes broadcast by NumPy's
    rules. Sums are kept in float64.
    """

    fusion = Fusion(operands=1, channel_axis=-1)

    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b, bias = arguments(self, inputs, 2, optional=1)
        require_float(self, a)
        require_dtype(self, a.dtype, b, bias)
        shape = _product_shape(self, a, b, self.transpose_a, self.transpose_b)
        require_vector(self, "bias", bias, shape[-1])
        return (a.with_shape(shape),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b, bias = arguments(self, inputs, 2, optional=1)
        with np.errstate(all="ignore"):
            y = _product(a, b, self.transpose_a, self.transpose_b)
            if bias is not None:
                y += bias
            return (y.astype(a.dtype),)


@dataclass(frozen=True)
class MatMulInteger(Op):
    """a @ b of int8 matrices, exact, as int32.

    Inputs a [..., M, K], b [..., K, N] ([..., N, K] when ``transpose_b``); zero points are 0.
    """

    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        require_dtype(self, DType.INT8, a, b)
        return (TensorType(_product_shape(self, a, b, False, self.transpose_b), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        # Products of int8 are exact in float64, and BLAS is far faster than integer loops.
        return (_product(a, b, False, self.transpose_b).astype(np.int64).astype(np.int32),)


def _product_shape(
    op: Op, a: TensorType, b: TensorType, transpose_a: bool, transpose_b: bool
) -> Shape:
    name = type(op).__name__
    require(a.rank >= 2 and b.rank >= 2, f"{name}: {a} and {b} should have rank 2 at least")
    k, m = a.shape[-2:] if transpose_a else a.shape[:-3:-1]
    n, depth = b.shape[-2:] if transpose_b else b.shape[:-3:-1]
    if not fits(k, depth):
        raise ShapeError(f"{name}: {a} has {k} columns, {b} has {depth} rows")
    return (*broadcast(op, a.shape[:-2], b.shape[:-2]), m, n)


def _product(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    a, b = a.astype(np.float64), b.astype(np.float64)
    a = a.swapaxes(-1, -2) if transpose_a else a
    return np.matmul(a, b.swapaxes(-1, -2) if transpose_b else b)
