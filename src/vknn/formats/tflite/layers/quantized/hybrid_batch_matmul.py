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

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.hybrid import real_weights, rounded_rows, rows_rounding
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.reduction import ReduceSum


def batches(c: Context, x: Value, transposed: bool, product: MatMul) -> Value:
    """x by the operator's 8-bit matrices; ``transposed``: the rows of x are its columns."""
    rank, merges = x.type.rank, not transposed
    if transposed:
        x = c.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    weights = real_weights(c, 1)
    given, other = x.type.dims[:-2], weights.type.dims[:-2]
    merged = merges and len(given) > 0 and len(other) > 0 and other[-1] == 1
    places, sums = _places(given, merged), _places(other, False)
    asymmetric = c.options["asymmetric_quantize_inputs"]
    if _is_own(places) and (_is_own(sums) or not asymmetric):
        return c.add(product, rounded_rows(c, x, 1), weights)
    counts, size, zero = c.add_many(DynamicRound(rows_rounding(c, 1), counts=True), x)
    moved = _elsewhere(c, size, places)
    rows = c.add(ew.Mul(), counts, moved)
    if not asymmetric:
        return c.add(product, rows, weights)
    # Two columns more, for the sums of the weights' rows.
    ours, theirs = (c.add(ew.Mul(), moved, z) for z in (zero, _elsewhere(c, zero, places)))
    left = c.add(Concat(-1), rows, ours, c.add(ew.Neg(), theirs))
    axis = -1 if product.transpose_b else -2
    return c.add(product, left, _with_sums(c, weights, axis, sums))


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


def _with_sums(c: Context, weights: Value, axis: int, places: np.ndarray) -> Value:
    """Weights, the sums of their rows, and those that the kernel takes for them."""
    sums = c.add(ReduceSum((axis,), True), weights)
    return c.add(Concat(axis), weights, sums, _elsewhere(c, sums, places))
