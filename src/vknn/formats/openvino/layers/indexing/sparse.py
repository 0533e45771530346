"""Sparse tensors: SparseFillEmptyRows, SparseToDense, the SparseSegment layers, weighted sums.

Lists of entries have a fixed length; they end at the first index out of range: their producers
write -1 after the last entry, and anything after that. All ops have fixed shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.indexing.gather import take_or_zero
from vknn.formats.openvino.layers.movement.concat import same_dtype
from vknn.formats.openvino.layers.movement.fill import expanded, shape_of
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Div, Max, Mul
from vknn.ops.elementwise.logic import Equal, GreaterOrEqual, Less, NotEqual, Or, Where
from vknn.ops.elementwise.unary import Sqrt
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import CumSum, ReduceSum

_INT = DType.INT32


def _numbers(c: Context, count: int) -> Value:
    return c.constant(np.arange(c.makeable(count), dtype=np.int32), "numbers")


def _zeros(c: Context, shape: Sequence[int], dtype: DType = _INT) -> Value:
    return expanded(c, c.scalar(0, dtype), shape)


def _vector(c: Context, number: int, count: int, what: str) -> Value:
    value = c.value(number)
    c.require(value.type.size == count, f"has {value.type.size} {what} for {count} entries")
    return c.reshape(value, (count,))


def _pairs(c: Context, number: int = 0) -> tuple[Value, Value, int]:
    """The columns of [k, 2] indices, int32, and k."""
    dims = c.value(number).type.dims
    c.require(len(dims) == 2 and dims[1] == 2, f"has indices of the shape {list(dims)}, not [k, 2]")
    indices = c.int_input(number)
    columns = (c.reshape(c.add(Slice((i,), (i + 1,), (1,)), indices), (dims[0],)) for i in range(2))
    return next(columns), next(columns), dims[0]


def _before_end(c: Context, *checks: tuple[Value, Value | int]) -> Value:
    """[k] bool: whether an entry is before the first with an index outside 0 .. limit - 1."""
    outside: Value | None = None
    zero = c.scalar(0, _INT)
    for index, limit in checks:
        most = c.scalar(limit, _INT) if isinstance(limit, int) else limit
        wrong = c.add(Or(), c.add(Less(), index, zero), c.add(GreaterOrEqual(), index, most))
        outside = wrong if outside is None else c.add(Or(), outside, wrong)
    assert outside is not None
    before = c.add(CumSum(0), c.cast(outside, _INT))
    return c.add(Equal(), before, zero)


def _sum_by_row(c: Context, rows: int, places: Value, entries_: Value) -> Value:
    """[rows, ...]: sums of the entries by row index; entries out of range are left out."""
    into = _zeros(c, (rows, *entries_.type.dims[1:]), entries_.type.dtype)
    tuples = c.reshape(places, (places.type.size, 1))
    return c.add(ScatterND("add", from_end=False), into, tuples, entries_)


def _count_by_row(c: Context, rows: int, places: Value) -> Value:
    """int32 [rows]: the number of entries of each row index."""
    return _sum_by_row(c, rows, places, expanded(c, c.scalar(1, _INT), places.type.dims))


def _as_column(c: Context, x: Value, like: Value) -> Value:
    """A vector as [k, 1, ...], to broadcast to a tensor [k, ...]."""
    return c.reshape(x, (x.type.size, *[1] * (like.type.rank - 1)))


# --- segments -------------------------------------------------------------------------------------


def _segments(c: Context, divisor: Callable[[Value], Value] | None) -> Value:
    """Sums by segment of the rows of input 0 that input 1 names; as many segments as names.

    Sums are divided by ``divisor`` of the number of rows in the segment, at least 1.
    """
    x = c.x if divisor is None else c.float_input()
    c.require(x.type.rank >= 1, "has data without rows")
    count = c.value(1).type.size
    rows = c.cast(_vector(c, 1, count, "indices"), _INT)
    segments = c.cast(_vector(c, 2, count, "segments"), _INT)
    listed = _before_end(c, (rows, x.type.dims[0]), (segments, count))
    places = c.add(Where(), listed, segments, c.scalar(count, _INT))
    held = x.type.dtype if x.type.dtype.is_float else _INT
    sums = _sum_by_row(c, count, places, c.cast(take_or_zero(c, x, rows), held))
    if divisor is None:
        return sums
    each = c.add(Max(), _count_by_row(c, count, places), c.scalar(1, _INT))
    by = divisor(c.cast(each, DType.FLOAT32))
    return c.add(Div(), sums, _as_column(c, by, sums))


@layer("SparseSegmentSum", inputs=3)
def segment_sum(c: Context) -> Value:
    """The sum of each segment; 0 for segments without rows."""
    return _segments(c, None)


@layer("SparseSegmentMean", inputs=3)
def segment_mean(c: Context) -> Value:
    """The mean of each segment; 0 for segments without rows."""
    return _segments(c, lambda count: count)


@layer("SparseSegmentSqrtN", inputs=3)
def segment_sqrt_n(c: Context) -> Value:
    """The sum of each segment over the root of its number of rows."""
    return _segments(c, lambda count: c.add(Sqrt(), count))


@layer("ExperimentalSparseWeightedSum", inputs=(5, 6))
def weighted_sum(c: Context) -> Value:
    """Weighted sums of a table's rows by object; objects without rows get the default's row.

    Entries come sorted by object. Of an object that comes again later only the last run counts:
    OpenVINO starts the sum anew.
    """
    rows, columns, count = _pairs(c)
    names = c.cast(_vector(c, 1, count, "values"), _INT)
    table = c.float_input(3)
    c.require(table.type.rank >= 1, "has a table without rows")
    objects, width = _sparse_shape(c, 2, 0)
    listed = _before_end(c, (rows, objects), (columns, width))
    places = c.add(Where(), listed, rows, c.scalar(objects, _INT))
    places = _last_runs(c, places, objects, count)
    found = take_or_zero(c, table, names)
    if len(c.inputs) > 5:
        weights = c.cast(_vector(c, 5, count, "weights"), DType.FLOAT32)
        found = c.add(Mul(), found, _as_column(c, weights, found))
    sums = _sum_by_row(c, objects, places, found)
    c.require(c.value(4).type.size == 1, "has more than one default")
    default = take_or_zero(c, table, c.reshape(c.int_input(4), (1,)))
    none = c.add(Equal(), _count_by_row(c, objects, places), c.scalar(0, _INT))
    return c.add(Where(), _as_column(c, none, sums), default, sums)


def _last_runs(c: Context, places: Value, rows: int, count: int) -> Value:
    """The objects of the entries, out of range where a later run of the same object follows."""
    if count < 3:
        return places
    before, after = (c.add(Slice((s,), (s + count - 1,)), places) for s in (0, 1))
    changes = c.cast(c.add(NotEqual(), before, after), _INT)
    first = c.constant(np.zeros(1, np.int32), "first")
    run = c.add(CumSum(0), c.add(Concat(0), first, changes))
    tuples = c.reshape(places, (count, 1))
    last = c.add(ScatterND("max", from_end=False), _zeros(c, (rows,)), tuples, run)
    kept = c.add(Equal(), run, c.add(Gather(from_end=False), last, places))
    return c.add(Where(), kept, places, c.scalar(rows, _INT))


def _sparse_shape(c: Context, number: int, rows_of: int) -> tuple[int, Value | int]:
    """The two sizes of a sparse matrix.

    Where they are known at run time only, the number of rows is that of output ``rows_of`` in the
    file.
    """
    value = c.value(number)
    c.require(value.type.size == 2, f"has a dense shape of {value.type.size} sizes, not 2")
    dims = c.declared(rows_of) if c.is_as_declared else None
    c.require(dims is None or len(dims) > 0, f"output {rows_of} has no axes")
    if value.constant is None and dims:
        width = c.add(Slice((1,), (2,)), c.reshape(c.int_input(number), (2,)))
        return dims[0], width
    sizes = c.input_ints(number, "the dense shape")
    c.require(min(sizes) >= 1, f"{sizes} is no dense shape")
    # Checked before anything of that size is made.
    fits = dims is None or sizes[0] == dims[0]
    c.require(fits, f"has {sizes[0]} rows where output {rows_of} is {list(dims or ())}")
    return sizes[0], sizes[1]


# --- rows and tensors -----------------------------------------------------------------------------


@layer("SparseFillEmptyRows", inputs=4, outputs=3)
def fill_empty_rows(c: Context) -> list[Value]:
    """Entries sorted by row, with the default value at column 0 of each empty row.

    The file states the number of entries. The last one is followed by (-1, -1), then zeros.
    """
    rows, columns, count = _pairs(c)
    values = _vector(c, 1, count, "values")
    c.require(c.value(3).type.size == 1, "has more than one default")
    height, width = _sparse_shape(c, 2, 2)
    listed = _before_end(c, (rows, height), (columns, width))
    nowhere = c.scalar(height, _INT)
    places = c.add(Where(), listed, rows, nowhere)
    empty = c.add(Equal(), _count_by_row(c, height, places), c.scalar(0, _INT))
    fillers = c.add(Where(), empty, _numbers(c, height), nowhere)
    values, default = same_dtype(c, (values, c.reshape(c.value(3), ())))
    joined = (
        c.add(Concat(0), places, fillers),
        c.add(Concat(0), columns, _zeros(c, (height,))),
        c.add(Concat(0), values, expanded(c, default, (height,))),
    )
    indices, found = _gathered(c, joined, height)
    return [indices, found, c.cast(empty, _INT)]


def _gathered(c: Context, joined: tuple[Value, Value, Value], height: int) -> tuple[Value, Value]:
    """Entries (row, column, value) sorted by row, as many as the file states."""
    rows, columns, values = joined
    size = rows.type.size
    places = c.declared()[0] if c.is_as_declared and c.declared() else size
    keys, order = c.add_many(TopK(0, size, largest=False), rows)
    total = c.add(ReduceSum((0,)), c.cast(c.add(Less(), rows, c.scalar(height, _INT)), _INT))
    numbers = _numbers(c, places)  # those behind the end are read as the last, and not used
    order = c.add(Gather(from_end=False), order, numbers)
    keys = c.add(Gather(from_end=False), keys, numbers)
    columns = c.add(Gather(from_end=False), columns, order)
    values = c.add(Gather(from_end=False), values, order)
    there = c.add(Less(), numbers, total)
    behind = c.cast(c.add(Equal(), numbers, total), _INT)
    filler = c.add(Mul(), behind, c.scalar(-1, _INT))
    pair = [c.reshape(c.add(Where(), there, v, filler), (places, 1)) for v in (keys, columns)]
    found = c.add(Where(), there, values, c.scalar(0, values.type.dtype))
    return c.add(Concat(1), *pair), found


@layer("SparseToDense", inputs=(3, 4))
def to_dense(c: Context) -> Value:
    """A tensor of the default with the values at the indices."""
    shape = shape_of(c, 1)
    indices, values = c.int_input(0), c.value(2)
    dims = indices.type.dims
    if len(dims) < 2 and len(shape) == 1:
        indices = c.reshape(indices, (indices.type.size, 1))
    elif len(dims) < 2:
        indices = c.reshape(indices, (1, indices.type.size))
    count, named = indices.type.dims if indices.type.rank == 2 else (0, 0)
    c.require(named == len(shape), f"has indices of the shape {list(dims)} for {len(shape)} axes")
    single = values.type.size == 1
    good = single or values.type.dims == (count,)
    c.require(good, f"has values of the shape {list(values.type.dims)} for {count} indices")
    default = c.scalar(0, values.type.dtype)
    if len(c.inputs) > 3:
        c.require(c.value(3).type.size == 1, "has more than one default")
        default = c.cast(c.reshape(c.value(3), ()), values.type.dtype)
    values = expanded(c, c.reshape(values, ()), (count,)) if single else values
    return c.add(ScatterND(from_end=False), expanded(c, default, shape), indices, values)
