"""BATCH_MATMUL of floats by 8-bit matrices, with the indexing errors of TensorFlow Lite's kernel.

The kernel rounds each row of x by a step and a zero point. It looks these up, and the sums of the
rows of weights that correct for zero points, at the sum of a matrix's batch indices. With several
batch axes that is the place of another matrix, whose values (marked ') enter the product:

    y = step' * (x / step + zero) @ w - step' * zero' * sums'

With three batch axes the kernel leaves some sums of weights unset; here all have their values.
"""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.hybrid import (
    dequantized_weights,
    rounded_rows,
    rows_rounding,
)
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.reduction import ReduceSum


def hybrid_batch_matmul(c: Context, x: Value, transposed: bool, product: MatMul) -> Value:
    """``x`` by the 8-bit matrices of input 1; ``transposed``: the columns of ``x`` are its rows."""
    rank = x.type.rank
    if transposed:
        x = c.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    weights = dequantized_weights(c, 1)
    given, other = x.type.dims[:-2], weights.type.dims[:-2]
    merged = not transposed and len(given) > 0 and len(other) > 0 and other[-1] == 1
    places, sum_places = _kernel_places(given, merged), _kernel_places(other, False)
    asymmetric = c.options["asymmetric_quantize_inputs"]
    if _in_order(places) and (_in_order(sum_places) or not asymmetric):
        return c.add(product, rounded_rows(c, x, 1), weights)
    counts, step, zero = c.add_many(DynamicRound(rows_rounding(c, 1), counts=True), x)
    moved = _matrices_at(c, step, places)
    rows = c.add(ew.Mul(), counts, moved)
    if not asymmetric:
        return c.add(product, rows, weights)
    # Two more columns, which multiply the sums of the weights' rows: step' * zero, -step' * zero'.
    own, other_zero = (c.add(ew.Mul(), moved, z) for z in (zero, _matrices_at(c, zero, places)))
    left = c.add(Concat(-1), rows, own, c.add(ew.Neg(), other_zero))
    axis = -1 if product.transpose_b else -2
    return c.add(product, left, _with_sums(c, weights, axis, sum_places))


def _in_order(places: np.ndarray) -> bool:
    return bool((places == np.arange(places.size)).all())


def _kernel_places(batch: tuple[int, ...], merged: bool) -> np.ndarray:
    """Place at which the kernel looks up the rows of each matrix of a batch.

    ``merged``: the kernel treats the matrices along the last batch axis as one with more rows.
    """
    last = batch[-1] if merged else 1
    outer = batch[:-1] if merged else batch
    sums = np.indices(outer).sum(axis=0).reshape(-1, 1) if outer else np.zeros((1, 1), np.int64)
    return np.asarray(sums * last + np.arange(last)).reshape(-1)


def _matrices_at(c: Context, rows: Value, places: np.ndarray) -> Value:
    """The matrices of a batch at ``places``, in the shape of the batch."""
    dims = rows.type.dims
    flat = c.reshape(rows, (math.prod(dims[:-2]), *dims[-2:]))
    found = c.add(Gather(), flat, c.constant(places.astype(np.int32), "places"))
    return c.reshape(found, dims)


def _with_sums(c: Context, weights: Value, axis: int, places: np.ndarray) -> Value:
    """Weights with the sums of their rows and those that the kernel uses, along ``axis``."""
    sums = c.add(ReduceSum((axis,), True), weights)
    return c.add(Concat(axis), weights, sums, _matrices_at(c, sums, places))
