"""SCATTER_ND, SPARSE_TO_DENSE, SEGMENT_SUM and EMBEDDING_LOOKUP_SPARSE."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.indexing.gather import checked_indices, index_tuples
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.shape import Expand, Slice

_SUM, _MEAN, _SQRTN = range(3)


def _zeros(c: Context, dims: tuple[int, ...], dtype: DType) -> Value:
    return c.add(Expand(dims), c.constant(np.zeros((), dtype.numpy), "zero"))


def _shape(c: Context, number: int) -> tuple[int, ...]:
    dims = c.ints(number, "the shape")
    c.require(min(dims, default=0) >= 0, f"has the shape {dims}")
    return tuple(dims)


@operator("SCATTER_ND", inputs=3, takes_quantized=True)
def scatter_nd(c: Context) -> Value:
    """A tensor of zeros with updates added at tuples of indices."""
    dims, updates = _shape(c, 2), c.value(1)
    named = c.x.type.dims[-1] if c.x.type.rank else 0
    c.require(1 <= named <= len(dims), f"writes {c.x.type} to the shape {list(dims)}")
    places = index_tuples(c, 0, dims[:named])
    empty = _zeros(c, dims, updates.type.dtype)
    return c.add(ScatterND("add", from_end=False), empty, places, updates)


@operator("SPARSE_TO_DENSE", inputs=4, takes_quantized=True)
def sparse_to_dense(c: Context) -> Value:
    """A tensor of a default value with values at given indices; of duplicates the last is kept."""
    dims, values, default = _shape(c, 1), c.value(2), c.value(3)
    c.require(c.x.type.rank <= 2 and values.type.rank <= 1, f"writes {values.type} to {c.x.type}")
    c.require(default.type.size == 1, f"fills with {default.type}")
    count = c.x.type.dims[0] if c.x.type.rank else 1
    if c.x.type.rank < 2:
        c.require(len(dims) == 1, f"has the places {c.x.type} in the shape {list(dims)}")
        places = c.reshape(checked_indices(c, 0, dims[0]), (count, 1))
    else:
        places = index_tuples(c, 0, dims)
    single = values.type.rank == 0
    c.require(single or values.type.size == count, f"has {values.type} for {count} places")
    updates = c.add(Expand((count,)), values) if single else values
    dense = c.add(Expand(dims), c.reshape(default, ()))
    return c.add(ScatterND(from_end=False), dense, places, updates)


@operator("SEGMENT_SUM", inputs=2)
def segment_sum(c: Context) -> Value:
    """Sums of rows with the same segment number; numbers ascend from 0."""
    numbers = c.ints(1, "the segments")
    good = c.x.type.rank >= 1 and len(numbers) == c.x.type.dims[0]
    c.require(good, f"has {len(numbers)} segment numbers for {c.x.type}")
    ascends = all(a <= b for a, b in zip([0, *numbers], numbers, strict=False))
    c.require(ascends, "has segment numbers that do not ascend from 0")
    rows = numbers[-1] + 1 if numbers else 0
    empty = _zeros(c, (rows, *c.x.type.dims[1:]), c.x.type.dtype)
    if not c.x.type.size:
        return empty
    places = c.constant(np.asarray(numbers, np.int32).reshape(-1, 1), "segments")
    return c.add(ScatterND("add", from_end=False), empty, places, c.x)


@operator("EMBEDDING_LOOKUP_SPARSE", inputs=5)
def embedding_lookup_sparse(c: Context) -> Value:
    """Sum, mean or sqrtn combination of table rows, for the ids in each row of a sparse tensor."""
    ids, where, weights, table = c.x, c.value(1), c.value(3), c.value(4)
    dims = _shape(c, 2)
    count = ids.type.size
    good = ids.type.rank == weights.type.rank == 1 and weights.type.size == count
    good = good and where.type.dims == (count, len(dims)) and len(dims) >= 1
    c.require(good and table.type.rank >= 2,
              f"looks {ids.type} of {where.type} up in {table.type}")  # fmt: skip
    lead, entry = dims[:-1] or (1,), table.type.dims[1:]
    places = _rows(c, dims)
    taken = c.add(Gather(from_end=False), table, checked_indices(c, 0, table.type.dims[0]))
    column = c.reshape(weights, (count, *[1] * len(entry)))
    total = _summed(c, (*lead, *entry), places, c.add(ew.Mul(), taken, column))
    if c.options["combiner"] != _SUM:
        total = c.add(ew.Div(), total, _divisor(c, lead, places, weights, len(entry)))
    return c.reshape(total, (*dims[:-1], *entry))


def _rows(c: Context, dims: tuple[int, ...]) -> Value:
    """Indices of the output row that each id belongs to: its place without the last axis."""
    places = index_tuples(c, 1, dims)
    if len(dims) == 1:
        return c.constant(np.zeros((c.x.type.size, 1), np.int32), "rows")
    return c.add(Slice((0,), (len(dims) - 1,), (1,)), places)


def _summed(c: Context, dims: tuple[int, ...], places: Value, updates: Value) -> Value:
    empty = _zeros(c, dims, DType.FLOAT32)
    return c.add(ScatterND("add", from_end=False), empty, places, updates)


def _divisor(c: Context, lead: tuple[int, ...], places: Value, weights: Value, axes: int) -> Value:
    """Divisor of each row: sum of weights or root of the sum of squares; 1 for empty rows."""
    mean = c.options["combiner"] == _MEAN
    total = _summed(c, lead, places, weights if mean else c.add(ew.Square(), weights))
    total = total if mean else c.add(ew.Sqrt(), total)
    some = c.constant(np.ones(c.x.type.size, bool), "some")
    empty = _zeros(c, lead, DType.BOOL)
    filled = c.add(ScatterND(from_end=False), empty, places, some)
    divisor = c.add(Where(), filled, total, c.scalar(1.0))
    return c.reshape(divisor, (*lead, *[1] * axes))
