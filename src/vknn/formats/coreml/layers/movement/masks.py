"""Bands of matrices, one-hot vectors, and indices of non-zero elements."""

from __future__ import annotations

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.sources import requested_shape
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.nonzero import NonZero


def _kept(c: Context, lowest: int | None, highest: int | None) -> Value:
    """Diagonals ``lowest`` to ``highest`` (above 0: upper); the others are 0, even for NaN."""
    c.require(c.x.type.rank >= 2, f"takes matrices, not {c.x.type}")
    rows, columns = c.x.type.dims[-2:]
    diagonal = np.arange(columns) - np.arange(rows)[:, None]
    mask = np.ones((rows, columns), np.bool_)
    if lowest is not None:
        mask &= diagonal >= lowest
    if highest is not None:
        mask &= diagonal <= highest
    return c.add(Where(), c.constant(mask, "mask"), c.x, c.scalar(0.0))


@layer("matrixBandPart")
def matrix_band_part(c: Context) -> Value:
    """The diagonals nearest to the main one; all below or above for a negative number."""
    lower, upper = c.params.numLower, c.params.numUpper
    return _kept(c, -lower if lower >= 0 else None, upper if upper >= 0 else None)


@layer("lowerTriangular")
def lower_triangular(c: Context) -> Value:
    """The diagonals up to ``k``."""
    return _kept(c, None, c.params.k)


@layer("upperTriangular")
def upper_triangular(c: Context) -> Value:
    """The diagonals from ``k`` on."""
    return _kept(c, c.params.k, None)


@layer("oneHot", inputs=(1, 2))
def one_hot(c: Context) -> Value:
    """A new axis with ``onValue`` at the index; ``offValue`` alone for indices out of range."""
    p, dims = c.params, c.x.type.dims
    given = c.ints(1, "the size") if len(c.inputs) > 1 else [int(p.oneHotVectorSize)]
    c.require(len(given) == 1 and given[0] > 0, f"makes vectors of {given}")
    axis = c.axis(p.axis, len(dims) + 1)
    requested_shape(c, [*dims, given[0]], "the size")
    shape = [1] * (len(dims) + 1)
    shape[axis] = given[0]
    c.makeable(given[0], DType.FLOAT32)
    places = c.constant(np.arange(given[0], dtype=np.float32).reshape(shape), "places")
    hit = c.add(Equal(), c.reshape(c.x, (*dims[:axis], 1, *dims[axis:])), places)
    return c.add(Where(), hit, c.scalar(p.onValue), c.scalar(p.offValue))


@layer("whereNonZero")
def where_non_zero(c: Context) -> Value:
    """Indices of all elements that are not 0, in row-major order."""
    return c.add(NonZero(DType.FLOAT32), c.x)
