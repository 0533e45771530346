"""Matrix products of floats and integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Fusion, Op, Shape, TensorType, attributes
from vknn.ops.common.blocks import blocks, in_blocks, places
from vknn.ops.common.checks import (
    arguments,
    broadcast,
    fits,
    require,
    require_dtype,
    require_float,
    require_vector,
)


@attributes
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
        shape = product_shape(self, a, b, self.transpose_a, self.transpose_b)
        require_vector(self, "bias", bias, shape[-1])
        return (a.with_shape(shape),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b, bias = arguments(self, inputs, 2, optional=1)
        return (_product_and_bias(a, b, bias, self.transpose_a, self.transpose_b),)


@attributes
class Projections(Op):
    """a @ b + bias for each of several b, the results stacked along a new first axis.

    Inputs a [..., M, K], then for each result b [K, N] ([N, K] when ``transpose_b``) and bias [N]
    or none. Result [count, ..., M, N].
    Made for devices on which one dispatch costs less than several, of MatMul ops that read the
    same a. Sums are kept in float64.
    """

    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, pairs = _pairs(inputs)
        require_float(self, a)
        shapes = set()
        for b, bias in pairs:
            require_dtype(self, a.dtype, b, bias)
            require(b.rank == 2, f"Projections: {b} is no matrix")
            shapes.add(product_shape(self, a, b, False, self.transpose_b))
            require_vector(self, "bias", bias, b.shape[0 if self.transpose_b else 1])
        require(len(shapes) == 1, f"Projections: results of several shapes, {shapes}")
        return (a.with_shape((len(pairs), *shapes.pop())),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, pairs = _pairs(inputs)
        return (np.stack([_product_and_bias(a, *pair, False, self.transpose_b) for pair in pairs]),)


def _pairs(inputs: Sequence[Any]) -> tuple[Any, list[tuple[Any, Any]]]:
    """a, and the pairs of b and bias, of Projections; raises ShapeError where one is missing."""
    good = len(inputs) > 2 and len(inputs) % 2 == 1
    require(good, f"Projections takes a and pairs of b and bias, not {len(inputs)} inputs")
    missing = any(x is None for x in (inputs[0], *inputs[1::2]))
    require(not missing, "Projections: a or a b is missing")
    return inputs[0], list(zip(inputs[1::2], inputs[2::2], strict=True))


@attributes
class MatMulInteger(Op):
    """a @ b of int8 matrices, exact, as int32.

    Inputs a [..., M, K], b [..., K, N] ([..., N, K] when ``transpose_b``); zero points are 0.
    """

    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        require_dtype(self, DType.INT8, a, b)
        return (TensorType(product_shape(self, a, b, False, self.transpose_b), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        y = np.empty(product_dims(a, b, False, self.transpose_b), np.int32)
        # Products of int8 are exact in float64, and BLAS is far faster than integer loops.
        for rows, columns, sums in products(a, b, False, self.transpose_b):
            y[..., rows, columns] = sums.astype(np.int64).astype(np.int32)
        return (y,)


@attributes
class QuantizedMatMul(Op):
    """a @ b by int8 factors with scales: exact sums, results as floats.

    Inputs a [..., M, K] ([..., K, M] when ``transpose_a``), b [..., K, N] ([..., N, K] when
    ``transpose_b``), a_scale, b_scale. A matrix of floats is quantized on the way as
    round(x * scale), halves away from zero, with scale = 127 / max|x| of each row of a and of each
    matrix of b (1 where all is 0), and has no input for it. An int8 matrix comes with its scale: a
    scalar, or [M] for a, [N] for b. The result is sum / (a_scale * b_scale). A NaN or an infinity
    makes NaN of all that its scale is shared with.
    """

    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b, a_scale, b_scale = arguments(self, inputs, 2, optional=2)
        shape = product_shape(self, a, b, self.transpose_a, self.transpose_b)
        self._check("a", a, a_scale, shape[-2])
        self._check("b", b, b_scale, shape[-1])
        dtypes = {t.dtype for t in (a, b, a_scale, b_scale) if t is not None} - {DType.INT8}
        require(len(dtypes) == 1, f"QuantizedMatMul: floats of several types in {a}, {b}")
        return (TensorType(shape, dtypes.pop()),)

    def _check(
        self, name: str, matrix: TensorType, scale: TensorType | None, length: int | None
    ) -> None:
        if matrix.dtype is not DType.INT8:
            require_float(self, matrix)
            require(scale is None, f"QuantizedMatMul: {name}, {matrix}, gets its own scales")
            return
        if scale is None:
            raise ShapeError(f"QuantizedMatMul: {name}, {matrix}, comes without its scale")
        require_float(self, scale)
        if scale.shape not in ((), (1,)):
            require_vector(self, f"{name}_scale", scale, length)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b, a_scale, b_scale = arguments(self, inputs, 2, optional=2)
        floats = next(x for x in (a, b, a_scale, b_scale) if x is not None and x.dtype != np.int8)
        with np.errstate(all="ignore"):
            if a_scale is None:
                a, a_scale = _quantized(a, (-2 if self.transpose_a else -1,))
                a_scale = a_scale.swapaxes(-1, -2) if self.transpose_a else a_scale
            elif a_scale.size > 1:
                a_scale = a_scale[:, None]
            if b_scale is None:
                b, b_scale = _quantized(b, (-1, -2))
            y = np.empty(product_dims(a, b, self.transpose_a, self.transpose_b), floats.dtype)
            for rows, columns, sums in products(a, b, self.transpose_a, self.transpose_b):
                left, right = _part(a_scale, -2, rows), _part(b_scale, -1, columns)
                y[..., rows, columns] = sums * (np.float32(1) / (left * right))
            return (y,)


@attributes
class RoundBlocks(Op):
    """Rounding of x to 8 bits, block by block: round(x * scale) / scale.

    A block is ``size`` elements in a row along the last axis, or what is left of it; scale is
    127 / max|x| of the block, 1 where all is 0; halves are rounded away from zero. A NaN or an
    infinity makes NaN of its block.
    """

    size: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        good = self.size > 0 and x.rank > 0
        require(good, f"RoundBlocks: {x} has no blocks of {self.size}")
        return (x,)

    @in_blocks(whole=lambda *_: (-1,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        width = x.shape[-1]
        rest = [(0, 0)] * (x.ndim - 1) + [(0, -width % self.size)]
        parts = np.pad(x, rest).reshape(*x.shape[:-1], -1, self.size)
        with np.errstate(all="ignore"):
            whole, scale = _quantized(parts, (-1,))
            y = (whole.astype(np.float64) / scale).reshape(*x.shape[:-1], width + rest[-1][1])
        return (y[..., :width].astype(x.dtype),)


def _part(scale: Any, axis: int, part: slice) -> Any:
    """The part of a scale as float32 along an axis, if it has one there."""
    scale = scale.astype(np.float32)
    if scale.ndim < -axis or scale.shape[axis] == 1:
        return scale
    return scale[..., part] if axis == -1 else scale[..., part, :]


def _quantized(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """x as int8, and the scales that it was multiplied by, float32, shared along ``axes``."""
    most = _most(x, axes)
    scale = np.where(most == 0, np.float32(1), np.float32(127) / most).astype(np.float32)
    whole = np.empty(x.shape, np.int8)
    for place in places(x.shape, 40):
        shared = np.broadcast_to(scale, x.shape)[place]
        scaled = (x[place].astype(np.float32) * shared).astype(np.float64)
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        whole[place] = np.clip(np.nan_to_num(rounded), -127, 127)
    return whole, scale


def _most(x: Any, axes: tuple[int, ...]) -> Any:
    """The greatest magnitudes along axes, which are kept; NaN where there is one."""
    high = x.max(axis=axes, keepdims=True, initial=0)
    low = x.min(axis=axes, keepdims=True, initial=0)
    return np.maximum(high, -low).astype(np.float32)


def product_shape(
    op: Op, a: TensorType, b: TensorType, transpose_a: bool, transpose_b: bool
) -> Shape:
    """The shape of a @ b; raises ShapeError where the two do not fit."""
    name = type(op).__name__
    require(a.rank >= 2 and b.rank >= 2, f"{name}: {a} and {b} should have rank 2 at least")
    k, m = a.shape[-2:] if transpose_a else a.shape[:-3:-1]
    n, depth = b.shape[-2:] if transpose_b else b.shape[:-3:-1]
    if not fits(k, depth):
        raise ShapeError(f"{name}: {a} has {k} columns, {b} has {depth} rows")
    return (*broadcast(op, a.shape[:-2], b.shape[:-2]), m, n)


def product_dims(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> tuple[int, ...]:
    """The shape of a @ b, of arrays that fit."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*lead, a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1])


def products(
    a: Any, b: Any, transpose_a: bool, transpose_b: bool, zeros: tuple[int, int] = (0, 0)
) -> Iterator[tuple[slice, slice, Any]]:
    """(a - zero) @ (b - zero) in float64, in parts: rows, columns and the sums of these.

    Exact for integers of few bits. Only parts of a and b are in float64 at the same time.
    """
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    lead = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    m, (depth, n) = a.shape[-2], b.shape[-2:]
    for columns in blocks(n, 8 * lead * depth):
        right = b[..., columns].astype(np.float64) - zeros[1]
        for rows in blocks(m, 8 * lead * max(depth, columns.stop - columns.start)):
            left = a[..., rows, :].astype(np.float64) - zeros[0]
            with np.errstate(all="ignore"):
                sums = np.matmul(left, right)
            yield rows, columns, sums


def _product_and_bias(
    a: Any, b: Any, bias: Any, transpose_a: bool, transpose_b: bool
) -> np.ndarray:
    """a @ b + bias, in the dtype of a."""
    y = np.empty(product_dims(a, b, transpose_a, transpose_b), a.dtype)
    with np.errstate(all="ignore"):
        for rows, columns, sums in products(a, b, transpose_a, transpose_b):
            y[..., rows, columns] = sums if bias is None else sums + bias[columns]
    return y
