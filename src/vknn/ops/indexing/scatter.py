"""ScatterND: entries written at indices that are data."""

from __future__ import annotations

import math

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype, wide

REDUCTIONS = ("none", "add", "mul", "max", "min")


@attributes
class ScatterND(Op):
    """x with the entries at tuples of indices replaced by, or combined with, updates.

    Inputs x, indices (int32, [..., k]) and updates: an entry of x behind its first k axes for each
    tuple. ``reduction``: "none" (of tuples that are the same the last one counts), "add", "mul"
    (integers wrap around; for bool: or, and), "max", "min" (NaN where one is NaN). Indices below 0
    count from the end unless ``from_end`` is off; tuples that are still outside are left out.
    """

    reduction: str = "none"
    from_end: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, indices, updates = arguments(self, inputs, 3)
        require(self.reduction in REDUCTIONS, f"ScatterND: no reduction {self.reduction!r}")
        require_dtype(self, DType.INT32, indices)
        require_dtype(self, x.dtype, updates)
        tuple_size = indices.shape[-1] if indices.rank else None
        require(tuple_size is not None, f"ScatterND: {indices} has no tuples of known length")
        require(
            tuple_size <= x.rank, f"ScatterND: tuples {indices} are longer than the axes of {x}"
        )
        wanted = (*indices.shape[:-1], *x.shape[tuple_size:])
        same = len(wanted) == updates.rank
        same = same and all(fits(a, b) for a, b in zip(wanted, updates.shape, strict=True))
        require(same, f"ScatterND: the updates {updates} do not suit {indices} and {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, indices, updates = arguments(self, inputs, 3)
        tuple_size = indices.shape[-1]
        sizes = x.shape[:tuple_size]
        if x.size == 0 or updates.size == 0:
            return (x.copy(),)
        places = indices.astype(np.int64).reshape(math.prod(indices.shape[:-1]), tuple_size)
        if self.from_end:
            places = np.where(places < 0, places + np.asarray(sizes, np.int64), places)
        inside = ((places >= 0) & (places < np.asarray(sizes, np.int64))).all(axis=1)
        strides = [math.prod(sizes[i + 1 :]) for i in range(tuple_size)]
        rows = (places[inside] * np.asarray(strides, np.int64)).sum(axis=1).astype(np.int64)
        entries = updates.reshape(len(places), -1)[inside]
        y = wide(x).reshape(math.prod(sizes), -1).copy()
        with np.errstate(all="ignore"):
            self._write(y, rows, wide(entries))
            return (y.astype(x.dtype).reshape(x.shape),)

    def _write(self, y: np.ndarray, rows: np.ndarray, entries: np.ndarray) -> None:
        if self.reduction == "none":
            y[rows] = entries
            return
        combine = {
            "add": np.add,
            "mul": np.multiply,
            "max": np.maximum,
            "min": np.minimum,
        }[self.reduction]
        combine.at(y, rows, entries)
