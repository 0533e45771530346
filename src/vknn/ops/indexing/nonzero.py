"""NonZero and Unique, whose outputs have sizes that depend on data."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require


@attributes
class NonZero(Op):
    """Places of the elements of x that are not zero: [n, rank], in order; n depends on data.

    NaN is not zero. ``dtype``: of the places, int32 or float32. ONNX's op of this name gives the
    transpose.
    """

    dtype: DType = DType.INT32

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.rank > 0, f"NonZero: {x} has no axes")
        known = self.dtype in (DType.INT32, DType.FLOAT32)
        require(known, f"NonZero: gives int32 or float32, not {self.dtype.value}")
        return (TensorType((None, x.rank), self.dtype),)

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        return (TensorType((x.size, x.rank), self.dtype),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.argwhere(x).astype(self.dtype.numpy),)


@attributes
class Unique(Op):
    """The different elements of x [n] in the order in which they come first; n depends on data.

    Gives them and, int32 [n], which of them each element of x is. A NaN equals no element, not even
    another NaN.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.rank == 1, f"Unique: {x} is no vector")
        return (x.with_shape((None,)), x.with_dtype(DType.INT32))

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x, x.with_dtype(DType.INT32))

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        _, first, which = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
        order = np.argsort(first)  # the sorted ones by their first places
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return (x[first[order]], rank[which].astype(np.int32))
