"""BATCH_MATMUL of floats by 8-bit matrices: what the kernel makes of its batch axes.

TensorFlow Lite adds up the indices of all batch axes to find the steps and zero points of a
matrix's rows, and the sums of the weights' rows that the zero points are multiplied by. Where there
are several such axes that is not the matrix's own place: its product then is off, in a way that
others' steps, zero points and sums of rows say:

    y = step' * (x / step + zero) @ w - step' * zero' * sums',  ' being what stands at that place.

Of weights with three batch axes the kernel leaves some sums unset; here all have their values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.hybrid import real_weights, rounded_rows
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops import logic
from vknn.ops.lookup import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement import Concat
from vknn.ops.reduction import ReduceMax, ReduceMin, ReduceSum


class _Steps(NamedTuple):
    """The size of a row's steps, 1 where all of it is 0, and the number that stands for 0."""

    size: Value
    zero: Value


def batches(c: Context, x: Value, transposed: bool, product: MatMul) -> Value:
    """x by the operator's 8-bit matrices; ``transposed``: the rows of x are its columns."""
    rank, merges = x.type.rank, not transposed
    if transposed:
        x = c.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    rounded, weights = rounded_rows(c, x, 1), real_weights(c, 1)
    given, other = x.type.dims[:-2], weights.type.dims[:-2]
    merged = merges and len(given) > 0 and len(other) > 0 and other[-1] == 1
    places, sums = _places(given, merged), _places(other, False)
    asymmetric = c.options["asymmetric_quantize_inputs"]
    own = _is_own(places) and (_is_own(sums) or not asymmetric)
    if own:
        return c.add(product, rounded, weights)
    if not asymmetric:
        size = _symmetric(c, x)
        ratio = c.add(ew.Div(), _elsewhere(c, size, places), size)
        return c.add(product, c.add(ew.Mul(), rounded, ratio), weights)
    axis = -1 if product.transpose_b else -2
    left, right = _moved_rows(c, x, rounded, places), _with_sums(c, weights, axis, sums)
    return c.add(product, left, right)


def _is_own(places: np.ndarray) -> bool:
    return bool((places == np.arange(places.size)).all())


def _places(batch: tuple[int, ...], merged: bool) -> np.ndarray:
    """What the kernel takes for the place of each matrix of a batch.

    ``merged``: the matrices along the last axis are one to it, of more rows.
    """
    last = batch[-1] if merged else 1
    outer = batch[:-1] if merged else batch
    sums = np.indices(outer).sum(axis=0).reshape(-1, 1) if outer else np.zeros((1, 1), np.int64)
    return np.asarray(sums * last + np.arange(last)).reshape(-1)


def _elsewhere(c: Context, rows: Value, places: np.ndarray) -> Value:
    """The matrices at ``places`` of a batch."""
    dims = rows.type.dims
    flat = c.reshape(rows, (math.prod(dims[:-2]), *dims[-2:]))
    found = c.add(Gather(), flat, c.constant(places.astype(np.int32), "places"))
    return c.reshape(found, dims)


def _symmetric(c: Context, x: Value) -> Value:
    """The size of the steps of each row."""
    most = c.add(ReduceMax(axes=(-1,)), c.add(ew.Abs(), x))
    zero = c.add(logic.Equal(), most, c.scalar(0.0))
    full = c.add(logic.Where(), zero, c.scalar(127.0), most)
    return c.add(ew.Mul(), full, c.scalar(1 / 127))


def _asymmetric(c: Context, x: Value) -> _Steps:
    """As DynamicRound rounds."""
    nothing, full = c.scalar(0.0), c.scalar(255.0)
    low = c.add(ew.Min(), c.add(ReduceMin(axes=(-1,)), x), nothing)
    high = c.add(ew.Max(), c.add(ReduceMax(axes=(-1,)), x), nothing)
    width = c.add(ew.Sub(), high, low)
    empty = c.add(logic.Equal(), width, nothing)
    width = c.add(logic.Where(), empty, full, width)
    below, above = (c.add(ew.Mul(), c.add(ew.Div(), v, width), full) for v in (low, high))
    from_low = c.add(ew.Sub(), c.scalar(-128.0), below)
    from_high = c.add(ew.Sub(), c.scalar(127.0), above)
    nearer = c.add(logic.Less(), c.add(ew.Sub(), c.scalar(128.0), below),
                   c.add(ew.Add(), c.scalar(127.0), above))  # fmt: skip
    zero = c.add(ew.Clip(-128.0, 127.0), c.add(logic.Where(), nearer, from_low, from_high))
    size = c.add(ew.Floor(), c.add(ew.Add(), c.add(ew.Abs(), zero), c.scalar(0.5)))
    zero = c.add(ew.Mul(), c.add(ew.Sign(), zero), size)
    zero = c.add(logic.Where(), empty, nothing, zero)
    return _Steps(c.add(ew.Div(), width, full), zero)


def _moved_rows(c: Context, x: Value, rounded: Value, places: np.ndarray) -> Value:
    """Rows in the steps of others, and two columns for the sums of the weights' rows."""
    steps = _asymmetric(c, x)
    size, zero = (_elsewhere(c, value, places) for value in steps)
    ratio = c.add(ew.Div(), size, steps.size)
    own, others = c.add(ew.Mul(), size, steps.zero), c.add(ew.Mul(), size, zero)
    columns = (c.add(ew.Mul(), rounded, ratio), own, c.add(ew.Neg(), others))
    return c.add(Concat(-1), *columns)


def _with_sums(c: Context, weights: Value, axis: int, places: np.ndarray) -> Value:
    """Weights, the sums of their rows, and those that the kernel takes for them."""
    sums = c.add(ReduceSum((axis,), True), weights)
    return c.add(Concat(axis), weights, sums, _elsewhere(c, sums, places))
