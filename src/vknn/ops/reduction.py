"""Reductions along any axes; Softmax, LogSoftmax, CumSum and CumProd along one."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from vknn.graph import DType, Op, Shape, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, normal_axis, require, require_float, wide

#: dtypes of which sums are taken; those of integers wrap around.
SUMMABLE = frozenset(
    (
        DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT32,
        DType.UINT64,
    )
)  # fmt: skip


def normal_axes(op: Op, axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in order; all of them for None.

    Raises ShapeError where one is out of range or repeated.
    """
    if axes is None:
        return tuple(range(rank))
    normal = sorted(normal_axis(op, a, rank) for a in axes)
    require(len(set(normal)) == len(normal), f"{type(op).__name__}: axes {axes} repeat")
    return tuple(normal)


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Shape of a reduction over ``axes``, counted from the front: of size 1 or left out."""
    if keepdims:
        return tuple(1 if a in axes else d for a, d in enumerate(shape))
    return tuple(d for a, d in enumerate(shape) if a not in axes)


@attributes
class Reduction(Op):
    """Base of the reductions: over ``axes`` (None: all), which stay with size 1 if ``keepdims``."""

    axes: tuple[int, ...] | None = None
    keepdims: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        self._check(x)
        axes = normal_axes(self, self.axes, x.rank)
        return (x.with_shape(reduced_shape(x.shape, axes, self.keepdims)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        (y,) = self._kept(x)
        return (y if self.keepdims else np.squeeze(y, normal_axes(self, self.axes, x.ndim)),)

    @in_blocks(whole=lambda op, rank: normal_axes(op, op.axes, rank))
    def _kept(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """The result with the reduced axes kept."""
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            y = self._reduce(wide(x), normal_axes(self, self.axes, x.ndim))
            return (np.asarray(y).astype(x.dtype),)

    def _check(self, x: TensorType) -> None:
        name = type(self).__name__
        require(x.dtype in SUMMABLE, f"{name} wants floats or integers of 32 or 64 bits, not {x}")

    @abstractmethod
    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """The result with ``axes`` kept; ``x`` is float64, or an integer array."""


class _OfFloats(Reduction):
    def _check(self, x: TensorType) -> None:
        require_float(self, x)


class _Extreme(Reduction):
    def _check(self, x: TensorType) -> None:
        empty = 0 in (x.shape[a] for a in normal_axes(self, self.axes, x.rank))
        require(not empty, f"{type(self).__name__}: {x} has nothing along axes {self.axes}")


def _sum(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.asarray(x.sum(axis=axes, keepdims=True, dtype=x.dtype))


def _sum_in_order(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sum in float32, one element after the other in order of indices."""
    first = np.moveaxis(x, sorted(axes), range(len(axes)))
    kept = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    rows = first.reshape(math.prod(first.shape[: len(axes)]), -1)
    total = np.zeros(rows.shape[1], np.float32)
    if len(rows):
        total = np.cumsum(rows, axis=0, dtype=np.float32)[-1]
    return np.asarray(total, np.float64).reshape(kept)


@attributes
class ReduceSum(Reduction):
    """The sum over ``axes`` (None: all); integers wrap around."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return _sum(x, axes)


@attributes
class ReduceMean(_OfFloats):
    """The mean over ``axes`` (None: all).

    ``in_order``: the sum is made in float32, of one element after the other in order of indices.
    """

    in_order: bool = False

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        total = _sum_in_order(x, axes) if self.in_order else _sum(x, axes)
        return total / np.float64(np.prod([x.shape[a] for a in axes]))


@attributes
class ReduceMax(_Extreme):
    """The maximum over ``axes`` (None: all); of bool: whether any is true."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(x.max(axis=axes, keepdims=True))


@attributes
class ReduceMin(_Extreme):
    """The minimum over ``axes`` (None: all); of bool: whether all are true."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(x.min(axis=axes, keepdims=True))


@attributes
class ReduceProd(Reduction):
    """The product over ``axes`` (None: all); integers wrap around."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(x.prod(axis=axes, keepdims=True, dtype=x.dtype))


@attributes
class ReduceSumSquare(Reduction):
    """The sum of the squares over ``axes`` (None: all); integers wrap around."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return _sum(x * x, axes)


@attributes
class ReduceL1(Reduction):
    """The sum of the absolute values over ``axes`` (None: all); integers wrap around."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return _sum(np.abs(x), axes)


@attributes
class ReduceL2(_OfFloats):
    """The root of the sum of the squares over ``axes`` (None: all)."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.sqrt(_sum(x * x, axes))


@attributes
class ReduceLogSum(_OfFloats):
    """The logarithm of the sum over ``axes`` (None: all)."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.log(_sum(x, axes))


@attributes
class ReduceLogSumExp(_OfFloats):
    """log(sum(exp(x))) over ``axes`` (None: all), without overflow."""

    def _reduce(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        most = np.asarray(x.max(axis=axes, keepdims=True, initial=-np.inf))
        shift = np.where(np.isfinite(most), most, 0.0)
        terms = x - shift
        return np.log(_sum(np.exp(terms, out=terms), axes)) + shift


@attributes
class Softmax(Op):
    """exp(x - max) / sum(exp(x - max)) along ``axis``"""

    axis: int = -1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        normal_axis(self, self.axis, x.rank)
        return (x,)

    @in_blocks(whole=lambda op, _: (op.axis,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (softmax(x.astype(np.float64), self.axis).astype(x.dtype),)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Softmax of float64 ``x``; a row of -inf alone gives NaN, an empty one stays empty."""
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=axis, keepdims=True)


@attributes
class LogSoftmax(Op):
    """x - max - log(sum(exp(x - max))) along ``axis``"""

    axis: int = -1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        normal_axis(self, self.axis, x.rank)
        return (x,)

    @in_blocks(whole=lambda op, _: (op.axis,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            y = x - x.max(axis=self.axis, keepdims=True, initial=-np.inf).astype(np.float64)
            y = y - np.log(np.exp(y).sum(axis=self.axis, keepdims=True))
        return (y.astype(x.dtype),)


@attributes
class Cumulative(Op):
    """Base of what is combined along ``axis``: for each element of all elements up to it.

    ``exclusive``: of those before each. ``reverse``: counted from the end. Integers wrap around.
    """

    axis: int = 0
    exclusive: bool = False
    reverse: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        name = type(self).__name__
        require(x.dtype in SUMMABLE, f"{name} wants floats or integers of 32 or 64 bits, not {x}")
        normal_axis(self, self.axis, x.rank)
        return (x,)

    @in_blocks(whole=lambda op, _: (op.axis,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        rows = np.moveaxis(wide(x), self.axis, 0)
        rows = rows[::-1] if self.reverse else rows
        with np.errstate(all="ignore"):
            found = self._combined.accumulate(rows, axis=0, dtype=rows.dtype)
            if self.exclusive:
                first = np.full_like(found[:1], self._combined.identity)
                found = np.concatenate([first, found[:-1]])[: len(rows)]
            found = found[::-1] if self.reverse else found
            return (np.ascontiguousarray(np.moveaxis(found, 0, self.axis)).astype(x.dtype),)

    @property
    @abstractmethod
    def _combined(self) -> np.ufunc:
        """How two elements are combined."""


@attributes
class CumSum(Cumulative):
    """Cumulative sums along ``axis``: of all elements up to each.

    ``exclusive``: of those before each. ``reverse``: counted from the end. Integers wrap around.
    """

    @property
    def _combined(self) -> np.ufunc:
        return np.add


@attributes
class CumProd(Cumulative):
    """Cumulative products along ``axis``: of all elements up to each.

    ``exclusive``: of those before each. ``reverse``: counted from the end. Integers wrap around.
    """

    @property
    def _combined(self) -> np.ufunc:
        return np.multiply
