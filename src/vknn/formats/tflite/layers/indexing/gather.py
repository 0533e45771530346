"""GATHER, GATHER_ND, EMBEDDING_LOOKUP and HASHTABLE_LOOKUP."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.quantized.packed_weights import (
    GATHERED_BITS,
    gathered,
    real_blocks,
    real_rows,
)
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.sub_byte import PackedIntegers
from vknn.graph import DType, Value
from vknn.ops.elementwise import Add, Cast, Mul
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.gather import Bounded, Gather, GatherND, SearchSorted
from vknn.ops.movement.shape import Expand
from vknn.ops.quantized.linear import DequantizeLinear

_INDICES = (DType.INT16, DType.INT32, DType.INT64)


def checked_indices(c: Context, number: int, size: int) -> Value:
    """An input of indices, as int32; an index outside 0 to ``size`` - 1 is an error at run time."""
    found = c.value(number)
    c.require(found.type.dtype in _INDICES, f"has indices of type {found.type}")
    return c.cast(c.add(Bounded(0, max(size - 1, -1)), found), DType.INT32)


def index_tuples(c: Context, number: int, sizes: Sequence[int]) -> Value:
    """An input of tuples of indices below ``sizes``, as int32; others are an error at run time."""
    found = c.value(number)
    c.require(found.type.dtype in _INDICES, f"has indices of type {found.type}")
    good = found.type.rank > 0 and found.type.dims[-1] == len(sizes)
    c.require(good, f"has the indices {found.type} for axes of {list(sizes)}")
    if found.type.size:
        found = c.add(Bounded(0, tuple(s - 1 for s in sizes)), found)
    return c.cast(found, DType.INT32)


@operator("GATHER", inputs=2, takes_quantized=True)
def gather(c: Context) -> Value:
    """Entries along an axis by index; the first ``batch_dims`` axes are batches of both inputs."""
    rank, places = c.x.type.rank, c.value(1)
    axis = c.axis(c.options["axis"], rank)
    batch = c.options["batch_dims"]
    batch = batch + places.type.rank if batch < 0 else batch
    c.require(0 <= batch <= min(axis, places.type.rank), f"has {batch} batch axes before {axis}")
    size = c.x.type.dims[axis]
    found = checked_indices(c, 1, size)
    packed = c.source(0).packed
    if packed is not None and axis == batch == 0 and packed.type.bits in GATHERED_BITS:
        return c.reshape(gathered(c, packed, found), (*found.type.dims, *c.x.type.dims[1:]))
    if batch == 0:
        return c.add(Gather(axis, from_end=False), c.x, found)
    return _batched_gather(c, found, axis, batch)


def _batched_gather(c: Context, found: Value, axis: int, batch: int) -> Value:
    """GATHER with batch axes: these and the gathered axis are joined, indices offset by batch."""
    dims = c.x.type.dims
    c.require(found.type.dims[:batch] == dims[:batch], f"gathers {found.type} from {c.x.type}")
    lead, between = dims[:batch], dims[batch:axis]
    size = dims[axis]
    order = (*range(batch), axis, *range(batch, axis), *range(axis + 1, len(dims)))
    joined = c.transpose(c.x, order)
    count = int(np.prod(lead))
    joined = c.reshape(joined, (count * size, *between, *dims[axis + 1 :]))
    steps = (np.arange(count, dtype=np.int32) * size).reshape(
        *lead, *[1] * (found.type.rank - batch)
    )
    moved = c.add(Add(), found, c.constant(steps, "starts"))
    taken = c.add(Gather(0, from_end=False), joined, moved)
    inner = found.type.rank - batch
    k = batch + inner
    back = (*range(batch), *range(k, k + len(between)), *range(batch, k),
            *range(k + len(between), taken.type.rank))  # fmt: skip
    return c.transpose(taken, back)


@operator("EMBEDDING_LOOKUP", inputs=2, takes_quantized=True)
def embedding_lookup(c: Context) -> Value:
    """Rows of a table by index; quantized rows are dequantized where the output is of floats.

    The bytes of uint8 tables are read as int8, as in TensorFlow Lite.
    """
    table, wanted = c.value(1), c.target().dtype
    good = table.type.rank >= 2 and c.x.type.rank == 1 and c.x.type.dtype is DType.INT32
    c.require(good, f"looks {c.x.type} up in the table {table.type}")
    packed = c.source(1).packed
    if packed is not None and math.prod(packed.shape[1:]) * packed.type.bits % 8 == 0:
        return _packed_lookup(c, packed)
    if c.source(1).blocks is not None:
        table = _blockwise_table(c)
    elif c.source(1).sub_byte is not None:
        table = _byte_aligned_rows(c, table)
    real = wanted is not table.type.dtype and wanted in (DType.FLOAT32, DType.FLOAT16)
    if real and not table.type.dtype.is_float:
        table = _int8_table(c, table)
    taken = c.add(
        Gather(0, from_end=False), table, found := checked_indices(c, 0, table.type.dims[0])
    )
    if not real or taken.type.dtype.is_float:
        return c.cast(taken, wanted) if c.source(1).blocks is not None else taken
    return c.cast(_dequantized_rows(c, taken, found), c.target().dtype)


def _packed_lookup(c: Context, packed: PackedIntegers) -> Value:
    """EMBEDDING_LOOKUP in a table of 4 or 2 bits whose rows are of whole bytes."""
    found, wanted, dims = checked_indices(c, 0, packed.shape[0]), c.target().dtype, packed.shape
    taken = gathered(c, packed, found)
    if c.source(1).blocks is not None:
        good = len(dims) == 2 and wanted in (DType.FLOAT32, DType.FLOAT16)
        c.require(good, f"makes {wanted.value} of {c.value(1).type} in blocks")
        real = real_rows(c, 1, taken, found)
    elif wanted in (DType.FLOAT32, DType.FLOAT16):
        c.require(not c.quant(1).zero_point.any(), f"makes floats of {c.value(1).type}")
        real = _dequantized_rows(c, taken, found)
    else:
        return c.reshape(taken, (*found.type.dims, *dims[1:]))
    return c.cast(c.reshape(real, (*found.type.dims, *dims[1:])), wanted)


def _blockwise_table(c: Context) -> Value:
    """A table with blockwise quantization as float32."""
    record, wanted, data = c.source(1), c.target().dtype, c.data(1)
    packed = record.sub_byte is not None and record.sub_byte.name in ("int4", "int2")
    good = packed and data.ndim == 2 and wanted in (DType.FLOAT32, DType.FLOAT16)
    c.require(good, f"makes {wanted.value} of {c.value(1).type} in blocks")
    return c.constant(real_blocks(c, 1), "table")


def _int8_table(c: Context, table: Value) -> Value:
    """A table without zero points as int8."""
    known = table.type.dtype in (DType.INT8, DType.UINT8)
    c.require(known and not c.quant(1).zero_point.any(), f"makes floats of {table.type}")
    if table.type.dtype is DType.INT8:
        return table
    return c.constant(c.data(1).view(np.int8), "table")


def _byte_aligned_rows(c: Context, table: Value) -> Value:
    """A sub-byte table as TensorFlow Lite reads it: each row from the byte that it starts in.

    Where rows do not fill whole bytes, such a row begins with the end of the row before it.
    """
    type_, data = c.source(1).sub_byte, c.data(1)
    each = 8 // type_.bits if type_ is not None else 1
    count, width = data.shape[0], data[:1].size
    if width % each == 0:
        return table
    c.require(c.target().sub_byte is None, f"copies rows of {width}, which fill no whole bytes")
    starts = np.arange(count) * width // each * each
    flat = data.reshape(-1)
    places = np.minimum(starts[:, None] + np.arange(width), flat.size - 1)
    return c.constant(flat[places].reshape(data.shape), "table")


def _dequantized_rows(c: Context, taken: Value, found: Value) -> Value:
    """Rows of integers times their scales: one for the table, or one for each of its rows."""
    quant = c.quant(1)
    if quant.scale.size == 1:
        scale = c.constant(quant.scale.reshape(()), "scale")
        return c.add(DequantizeLinear(), taken, scale)
    scales = c.constant(quant.scale, "scales")
    real = c.add(DequantizeLinear(), taken, c.scalar(1.0))
    factors = c.add(Gather(0, from_end=False), scales, found)
    shape = (*found.type.dims, *[1] * (real.type.rank - found.type.rank))
    return c.add(Mul(), real, c.reshape(factors, shape))


@operator("GATHER_ND", inputs=2, takes_quantized=True)
def gather_nd(c: Context) -> Value:
    """Entries or slices at tuples of indices (the last axis of the second input)."""
    found = c.value(1)
    named = found.type.dims[-1] if found.type.rank else 0
    fits = found.type.rank > 0 and named <= c.x.type.rank
    c.require(fits, f"looks {found.type} up in {c.x.type}")
    if not named:
        whole = (*found.type.dims[:-1], *c.x.type.dims)
        return c.add(Expand(whole), c.x)
    return c.add(GatherND(from_end=False), c.x, index_tuples(c, 1, c.x.type.dims[:named]))


@operator("HASHTABLE_LOOKUP", inputs=3, outputs=2, takes_quantized=True)
def hashtable_lookup(c: Context) -> list[Value]:
    """Values by their keys, zeros where there is none, and whether there is one (uint8)."""
    queries, keys, values = c.x, c.value(1), c.value(2)
    good = queries.type.rank == keys.type.rank == 1 and values.type.rank >= 1
    good = good and queries.type.dtype is keys.type.dtype is DType.INT32
    good = good and values.type.dims[0] == keys.type.size > 0
    c.require(good, f"asks {values.type} with the keys {keys.type} for {queries.type}")
    count, entry = queries.type.size, values.type.dims[1:]
    zero = b"" if values.type.dtype is DType.STRING else 0
    zeros = c.constant(np.full((), zero, values.type.dtype.numpy), "zero")
    place = c.add(SearchSorted(), keys, queries)
    hit = c.add(Equal(), c.add(Gather(from_end=False), keys, place), queries)
    taken = c.add(Gather(from_end=False), values, place)
    here = c.reshape(hit, (count, *[1] * len(entry)))
    return [c.add(Where(), here, taken, zeros), c.add(Cast(DType.UINT8), hit)]
