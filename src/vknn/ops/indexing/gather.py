"""Gather, GatherND and SearchSorted: entries at indices that are data; Bounded, their check."""

from __future__ import annotations

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, normal_axis, require, require_dtype


@attributes
class Gather(Op):
    """Entries of x along ``axis`` at the indices of the second input.

    Inputs x and indices (int32, any rank); the axes of the indices stand where ``axis`` was.
    Indices below 0 count from the end unless ``from_end`` is off; what is still outside takes the
    nearest entry, or with ``outside`` "zero" gives zeros.
    """

    axis: int = 0
    from_end: bool = True
    outside: str = "nearest"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, indices = arguments(self, inputs, 2)
        require(self.outside in ("nearest", "zero"), f"Gather: no mode {self.outside!r}")
        require_dtype(self, DType.INT32, indices)
        axis = normal_axis(self, self.axis, x.rank)
        return (x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, indices = arguments(self, inputs, 2)
        size = x.shape[self.axis]
        places = indices.astype(np.int64)
        if self.from_end:
            places = np.where(places < 0, places + size, places)
        y = np.asarray(np.take(x, places, self.axis, mode="clip"), x.dtype)
        if self.outside == "zero":
            axis = self.axis % x.ndim
            shape = (*[1] * axis, *places.shape, *[1] * (x.ndim - axis - 1))
            inside = np.asarray((places >= 0) & (places < size)).reshape(shape)
            y = np.where(inside, y, np.zeros((), x.dtype))
        return (y,)


@attributes
class GatherND(Op):
    """The entries of x at tuples of indices.

    Inputs x and indices (int32, [..., k]); the last axis of the indices counts the axes of x behind
    the ``batch_dims`` first ones, in which both go in step. Indices below 0 count from the end
    unless ``from_end`` is off; what is still outside takes the nearest entry.
    """

    batch_dims: int = 0
    from_end: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, indices = arguments(self, inputs, 2)
        require_dtype(self, DType.INT32, indices)
        tuple_size = (indices.shape[-1] if indices.rank else None) or 0
        known = indices.rank > 0 and indices.shape[-1] is not None
        require(known, f"GatherND: {indices} has no tuples of known length")
        batch = self.batch_dims
        good = 0 <= batch < indices.rank and batch + tuple_size <= x.rank
        require(good, f"GatherND: {batch} batch axes and tuples {indices} do not suit {x}")
        same = all(fits(a, b) for a, b in zip(x.shape[:batch], indices.shape[:batch], strict=True))
        require(same, f"GatherND: {x} and {indices} differ in their batch axes")
        return (x.with_shape((*indices.shape[:-1], *x.shape[batch + tuple_size :])),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, indices = arguments(self, inputs, 2)
        tuple_size, batch = indices.shape[-1], self.batch_dims
        lead = x.shape[:batch]
        places = normal_places(indices, x.shape[batch : batch + tuple_size], self.from_end)
        own = [np.arange(n).reshape(n, *[1] * (indices.ndim - 2 - i)) for i, n in enumerate(lead)]
        shape = (*indices.shape[:-1], *x.shape[batch + tuple_size :])
        if 0 in shape or 0 in x.shape:
            return (np.zeros(shape, x.dtype),)
        key = (*own, *(places[..., i] for i in range(tuple_size)))
        return (np.broadcast_to(x[key], shape).copy(),)


def normal_places(indices: np.ndarray, sizes: tuple[int, ...], from_end: bool) -> np.ndarray:
    """Tuples of indices, int64, within ``sizes``."""
    places, limits = indices.astype(np.int64), np.asarray(sizes, np.int64)
    if from_end:
        places = np.where(places < 0, places + limits, places)
    return np.clip(places, 0, np.maximum(limits - 1, 0))


@attributes
class SearchSorted(Op):
    """Place of each value in ``keys``: how many keys are smaller (``right``: or equal).

    Inputs keys [n], ascending, and values of the same dtype; gives int32 places from 0 to n. NaN is
    behind all numbers. Keys in another order are searched by halves as ascending ones are, which is
    what std::lower_bound and std::upper_bound do.
    """

    right: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        keys, values = arguments(self, inputs, 2)
        require(keys.rank == 1, f"SearchSorted: the keys are {keys}")
        require_dtype(self, keys.dtype, values)
        return (values.with_dtype(DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        keys, values = arguments(self, inputs, 2)
        low, high = np.zeros(values.shape, np.int32), np.full(values.shape, keys.size, np.int32)
        for _ in range(keys.size.bit_length()):
            middle = (low + high) // 2
            key = keys[np.minimum(middle, keys.size - 1)]
            before = (key <= values if self.right else key < values) | np.isnan(values)
            if not self.right:
                before &= ~np.isnan(key)
            before &= low < high
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return (low.astype(np.int32, copy=False),)  # NumPy 1 widens scalars by integers


@attributes
class Bounded(Op):
    """Check of an integer tensor: gives x, or raises where an element lies outside low..high.

    Bounds may be tuples: one for each place along the last axis. Computed on the host always: a
    device cannot complain. ``what`` names the elements in the error.
    """

    low: int | tuple[int, ...]
    high: int | tuple[int, ...]
    what: str = "index"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype.is_integer, f"Bounded: bounds integers, not {x}")
        for bounds in (self.low, self.high):
            if isinstance(bounds, tuple):
                good = x.rank > 0 and fits(x.shape[-1], len(bounds))
                require(good, f"Bounded: {len(bounds)} bounds do not suit {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        low = np.broadcast_to(np.asarray(self.low, np.int64), x.shape)
        high = np.broadcast_to(np.asarray(self.high, np.int64), x.shape)
        outside = (x < low) | (x > high)
        if outside.any():
            found, least, most = (array[outside].flat[0] for array in (x, low, high))
            raise ShapeError(f"{self.what} {found} is out of range: {least} to {most}")
        return (x,)
