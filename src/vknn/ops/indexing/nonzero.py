"""NonZero, Unique and UniqueSlices, whose outputs have sizes that depend on data."""

from __future__ import annotations

import math

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
        first, which = _sorted_out(x, equal_nan=False)
        order = np.argsort(first).astype(np.int32)  # the sorted ones by their first places
        found = x[first[order]]
        del first
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return (found, rank[which])


@attributes
class UniqueSlices(Op):
    """The different entries x[i] along the first axis; their number depends on data.

    ``sorted``: in lexicographic order, NaN last; else in the order in which they come first. A NaN
    equals another one. Outputs: the entries; int64, of each where it comes first; which of them
    each x[i] is; how often each comes.
    """

    sorted: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.rank > 0, f"UniqueSlices: {x} has no axes")
        found = TensorType((None,), DType.INT64)
        return (
            x.with_shape((None, *x.shape[1:])), found, TensorType(x.shape[:1], DType.INT64), found,
        )  # fmt: skip

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        # Ranks of the elements: integers, which sort alike whatever the type is.
        ranks = _sorted_out(x.reshape(-1), equal_nan=True)[1]
        ranks = ranks.reshape(len(x), math.prod(x.shape[1:]))
        order = np.lexsort(ranks.T[::-1]) if ranks.shape[1] else np.arange(len(x))
        rows = ranks[order]
        begins = np.ones(len(x), np.bool_)
        begins[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        first = order[begins]  # lexsort is stable
        which = np.empty(len(x), np.int64)
        which[order] = np.cumsum(begins) - 1
        if not self.sorted:
            by_place = np.argsort(first)
            place = np.empty_like(by_place)
            place[by_place] = np.arange(len(first))
            first, which = first[by_place], place[which]
        counts = np.bincount(which, minlength=len(first)).astype(np.int64)
        return x[first], first.astype(np.int64), which.astype(np.int64), counts


def _sorted_out(x: np.ndarray, equal_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the different elements of a vector come first, in their order, and which each is.

    As numpy.unique does it, but with int32, for all types, and in less memory.
    """
    order = np.argsort(x, kind="stable").astype(np.int32)
    found = x[order]
    begins = np.ones(len(x), np.bool_)
    begins[1:] = found[1:] != found[:-1]
    if equal_nan:  # NaN come last
        begins[1:] &= ~((found[1:] != found[1:]) & (found[:-1] != found[:-1]))
    del found
    which = np.empty(len(x), np.int32)
    which[order] = np.cumsum(begins, dtype=np.int32)
    which -= 1
    return order[begins], which
