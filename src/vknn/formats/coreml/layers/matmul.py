"""Matrix products, and embeddings.

With int8DynamicQuantize data are not rounded to 8 bits: the exact product is what the rounded one
approximates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Add
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul


@layer("innerProduct")
def inner_product(c: Context) -> Value:
    """x W^T + b over the last axis, or from rank 4 on over the last three, merged to one."""
    p, x = c.params, c.x
    w = _matrix(c, (p.outputChannels, p.inputChannels))
    rank = x.type.rank
    c.require(rank <= 5, f"its input {x.type} has more than 5 axes")
    folded = 3 if rank >= 4 else 1
    lead, inner = x.type.dims[: rank - folded], math.prod(x.type.dims[rank - folded :])
    fits = inner == p.inputChannels
    c.require(fits, f"its input {x.type} has {inner} channels, its weights {p.inputChannels}")
    rows = c.reshape(x, (*(lead or (1,)), inner))
    y = c.add(MatMul(transpose_b=True), rows, w, _bias(c, p.outputChannels))
    return c.reshape(y, (*lead, p.outputChannels, *[1] * (folded - 1)))


@layer("batchedMatmul", inputs=(1, 2))
def batched_matmul(c: Context) -> Value:
    """Product over the last two axes. A stored matrix [X1, X2] is column-major."""
    if c.optional(1) is not None:
        return _as_matrices(c, c.x, c.value(1))
    p, x = c.params, c.x
    rows, columns = p.weightMatrixFirstDimension, p.weightMatrixSecondDimension
    w = _matrix(c, (columns, rows))
    width = x.type.dims[-1]
    c.require(width == rows, f"its input {x.type} has {width} columns, its matrix {rows} rows")
    lead = x.type.dims[:-1]
    flat = c.reshape(x, (*(lead or (1,)), rows))
    y = c.add(MatMul(transpose_b=True), flat, w, _bias(c, columns))
    return c.reshape(y, (*lead, columns))


@layer("embedding")
def embedding(c: Context) -> Value:
    """Rows [..., outputChannels, 1, 1] of the transposed matrix, at indices [..., 1, 1, 1]."""
    p, x = c.params, c.x
    right = x.type.rank in (4, 5) and x.type.dims[-3:] == (1, 1, 1)
    c.require(right, f"its input {x.type} is not [..., 1, 1, 1] of rank 4 or 5")
    y = _columns_at(c, p.inputDim, p.outputChannels, x.type.dims[:-3])
    return c.reshape(y, (*x.type.dims[:-3], p.outputChannels, 1, 1))


@layer("embeddingND")
def embedding_nd(c: Context) -> Value:
    """Rows [..., embeddingSize] of the transposed matrix, at indices [..., 1]."""
    p, x = c.params, c.x
    right = 2 <= x.type.rank <= 5 and x.type.dims[-1] == 1
    c.require(right, f"its input {x.type} is not [..., 1] of rank 2 to 5")
    return _columns_at(c, p.vocabSize, p.embeddingSize, x.type.dims[:-1])


def _matrix(c: Context, shape: tuple[int, int]) -> Value:
    """Weights [outputs, inputs]."""
    p: Any = c.params
    if not p.int8DynamicQuantize:
        return c.constant(c.weight(p.weights, shape, "weights"), "weights")
    codes, scale = c.int8_dynamic(p.weights, shape)
    c.require(scale.size in (1, shape[0]), f"{scale.size} scales for {shape[0]} channels")
    real = codes.astype(np.float32) * scale.reshape(-1, 1)
    return c.constant(real.astype(np.float32), "weights")


def _bias(c: Context, count: int) -> Value | None:
    if not c.params.hasBias:
        return None
    return c.constant(c.weight(c.params.bias, count, "bias"), "bias")


def _as_matrices(c: Context, a: Value, b: Value) -> Value:
    """Both inputs as matrices: a vector is a row on the left, a column on the right."""
    c.require(not c.params.hasBias, "a product of two inputs has no bias")
    if a.type.rank == 1:
        a = c.reshape(a, (1, *a.type.dims))
    if b.type.rank == 1:
        b = c.reshape(b, (*b.type.dims, 1))
    return c.add(MatMul(c.params.transposeA, c.params.transposeB), a, b)


def _columns_at(c: Context, entries: int, width: int, shape: tuple[int, ...]) -> Value:
    """The columns at the input's indices, [*shape, width]."""
    matrix = c.weight(c.params.weights, (width, entries), "weights")
    table = c.constant(np.ascontiguousarray(matrix.T), "table")
    indices = c.cast(c.reshape(c.x, shape), DType.INT32)
    rows = c.add(Gather(axis=0, from_end=False), table, indices)
    bias = _bias(c, width)
    return rows if bias is None else c.add(Add(), rows, bias)
