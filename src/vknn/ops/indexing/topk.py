"""ArgMax, ArgMin and TopK along an axis."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, normal_axis, require
from vknn.ops.reduction import reduced_shape


@attributes
class _ArgExtreme(Op):
    """Base of ArgMax and ArgMin. ``largest`` says which of them."""

    axis: int = 0
    keepdims: bool = True
    select_last: bool = False
    nan_last: bool = False

    largest = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        axis = normal_axis(self, self.axis, x.rank)
        require(x.shape[axis] != 0, f"{type(self).__name__}: {x} has nothing along axis {axis}")
        return (TensorType(reduced_shape(x.shape, (axis,), self.keepdims), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        find = np.argmax if self.largest else np.argmin
        if self.nan_last and x.dtype.kind == "f":
            x, find = self._best(x), np.argmax
        if self.select_last:
            found = x.shape[self.axis] - 1 - find(np.flip(x, self.axis), axis=self.axis)
        else:
            found = find(x, axis=self.axis)
        found = np.asarray(found, np.int32)
        return (np.expand_dims(found, self.axis) if self.keepdims else found,)

    def _best(self, x: np.ndarray) -> np.ndarray:
        """True for the elements that are the best numbers of their rows."""
        best, worst = (np.max, -np.inf) if self.largest else (np.min, np.inf)
        real = ~np.isnan(x)
        top = best(x, axis=self.axis, keepdims=True, initial=worst, where=real)
        return np.asarray(real & (x == top))


@attributes
class ArgMax(_ArgExtreme):
    """int32 index of the largest element along ``axis``, which stays with size 1 if ``keepdims``.

    Of equal ones the first, or with ``select_last`` the last. NaN is larger than any number, or
    with ``nan_last`` smaller.
    """


@attributes
class ArgMin(_ArgExtreme):
    """int32 index of the smallest element along ``axis``, which stays with size 1 if ``keepdims``.

    Of equal ones the first, or with ``select_last`` the last. NaN is smaller than any number, or
    with ``nan_last`` larger.
    """

    largest = False


@attributes
class TopK(Op):
    """The ``k`` largest (or smallest) elements along ``axis``: values and int32 indices.

    Best first, of equal ones that with the lower index; not ``sorted``: in the order of their
    indices. NaN is larger than any number.
    """

    axis: int
    k: int
    largest: bool = True
    sorted: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        axis = normal_axis(self, self.axis, x.rank)
        size = x.shape[axis]
        require(self.k >= 0, f"TopK: k is {self.k}")
        require(size is None or self.k <= size, f"TopK: k is {self.k}, axis {axis} of {x} shorter")
        shape = (*x.shape[:axis], self.k, *x.shape[axis + 1 :])
        return (x.with_shape(shape), TensorType(shape, DType.INT32))

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        rows = np.moveaxis(x, self.axis, -1)
        if self.largest:  # the mirror image of a stable sort keeps the order of equal elements
            last = rows.shape[-1] - 1
            order = last - np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(rows, axis=-1, kind="stable")
        order = order[..., : self.k]
        order = order if self.sorted else np.sort(order, axis=-1)
        values = np.take_along_axis(rows, order, axis=-1)
        moved = (np.moveaxis(a, -1, self.axis) for a in (values, order.astype(np.int32)))
        return tuple(np.ascontiguousarray(a) for a in moved)
