"""The largest, the non-zero, the chosen: operators whose results are places."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import MICROSOFT, Convert, operator
from vknn.graph import DType, Value
from vknn.ops.elementwise import Add, Max, Min
from vknn.ops.elementwise.logic import Equal, Less, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.nonzero import NonZero, UniqueSlices
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.movement.shape import Slice, Transpose
from vknn.ops.reduction import CumProd, CumSum


def _arg(op: type[ArgMax] | type[ArgMin]) -> Convert:
    def convert(c: Context) -> Value:
        axis = c.axis(c.int("axis", 0), c.rank)
        last = c.version >= 12 and c.flag("select_last_index")
        found = op(axis, c.flag("keepdims", True), last)
        return c.cast(c.add(found, c.x), DType.INT64)

    convert.__doc__ = f"int64 index of the {'largest' if op is ArgMax else 'smallest'} element"
    return convert


for _op in (ArgMax, ArgMin):
    operator(_op.__name__, 1, 11, 12, 13)(_arg(_op))


@operator("TopK", 1, 10, 11, 24, inputs=(1, 2), outputs=2)
def top_k(c: Context) -> tuple[Value, ...]:
    """The largest or smallest elements along an axis, and their places"""
    axis = c.axis(c.int("axis", -1), c.rank)
    wanted = [c.int("k")] if c.version == 1 else c.vector(1, "K")
    c.require(len(wanted) == 1, f"has the values {wanted[:8]} as K, not one")
    count = wanted[0]
    size = c.x.type.dims[axis]
    c.require(0 <= count <= size, f"K is {count}, axis {axis} of {c.x.type} has {size}")
    op = TopK(axis, count, c.flag("largest", True), c.flag("sorted", True))
    values, places = c.add_many(op, c.x)
    return values, c.cast(places, DType.INT64)


@operator("NonZero", 9, 13)
def non_zero(c: Context) -> Value:
    """Places of the elements that are not zero, a column each"""
    if c.x.constant is not None:
        found = np.asarray(np.nonzero(np.atleast_1d(c.x.constant)), np.int64)
        return c.constant(found[:0] if c.rank == 0 else found, "places")
    if c.rank == 0:
        found_value = c.add(NonZero(), c.reshape(c.x, (1,)))
        rows = c.add(Transpose((1, 0)), found_value)
        return c.cast(c.add(Gather(0), rows, c.constant(np.zeros(0, np.int32))), DType.INT64)
    return c.cast(c.add(Transpose((1, 0)), c.add(NonZero(), c.x)), DType.INT64)


@operator("Unique", 11, 28, outputs=(1, 4))
def unique(c: Context) -> tuple[Value, ...]:
    """The different elements, or entries along an axis; where they are, and how often"""
    axis, op = c.int("axis", None), UniqueSlices(c.flag("sorted", True))
    if axis is None:
        return c.add_many(op, c.reshape(c.x, (c.x.type.size,)))
    axis = c.axis(axis, c.rank)
    others = [a for a in range(c.rank) if a != axis]
    found, *rest = c.add_many(op, c.transpose(c.x, (axis, *others)))
    back = (*range(1, axis + 1), 0, *range(axis + 1, c.rank))
    return (c.transpose(found, back), *rest)


@operator("Unique", 1, outputs=3, domain=MICROSOFT)
def unique_elements(c: Context) -> tuple[Value, ...]:
    """The different elements of a vector as they come; which of them each is; their numbers"""
    c.require(c.rank == 1, f"takes a vector, not {c.x.type}")
    found, _, which, counts = c.add_many(UniqueSlices(sorted=False), c.x)
    return found, which, counts


@operator("Compress", 9, 11, 28, inputs=2, any_type=True)
def compress(c: Context) -> Value:
    """The entries along an axis for which a condition holds"""
    x, condition = c.x, c.value(1)
    condition = c.reshape(condition, (condition.type.size,))
    axis = c.int("axis", None)
    if axis is None:
        x, axis = c.reshape(x, (x.type.size,)), 0
    axis = c.axis(axis, x.type.rank)
    size = x.type.dims[axis]
    if condition.type.size > size:  # what has nothing to choose counts nothing
        condition = c.add(Slice((0,), (size,), (0,)), condition)
    if condition.constant is not None:
        places = c.constant(np.flatnonzero(condition.constant).astype(np.int32), "places")
        return c.add(Gather(axis), x, places)
    found = c.builder.add(NonZero(), condition, origin=c.origin)
    row = c.add(Gather(1), found, c.constant(np.zeros((), np.int32), "column"))
    return c.add(Gather(axis), x, row)


@operator("OneHot", 9, 11, 28, inputs=3, like=2)
def one_hot(c: Context) -> Value:
    """values[1] where a new axis has the index, values[0] elsewhere"""
    depth = int(c.number(1, "depth"))
    c.require(depth > 0, f"has the depth {depth} for {c.x.type}")
    c.makeable(depth, DType.INT32)
    c.require(c.rank >= 1, "takes indices with an axis, not a scalar")
    values = c.value(2)
    c.require(values.type.dims == (2,), f"has the values {values.type}, not two")
    places = _small_places(c, depth)
    axis = c.axis(c.int("axis", -1), c.rank + 1)
    # Counted from the end, before opset 11 too: there onnxruntime does so, and ONNX says nothing.
    wrapped = c.add(Add(), places, c.scalar(depth, DType.INT32))
    places = c.add(Where(), c.add(Less(), places, c.scalar(0, DType.INT32)), wrapped, places)
    dims = places.type.dims
    places = c.reshape(places, (*dims[:axis], 1, *dims[axis:]))
    steps = np.arange(depth, dtype=np.int32).reshape(depth, *[1] * (len(dims) - axis))
    chosen = c.add(Equal(), places, c.constant(steps, "classes"))
    off, on = (
        c.add(Gather(0), values, c.constant(np.asarray(n, np.int32), f"place{n}")) for n in (0, 1)
    )
    return c.add(Where(), chosen, on, off)


def _small_places(c: Context, depth: int) -> Value:
    """Indices as int32; those that are no class become one that is none either."""
    found = c.x
    if found.type.dtype in (DType.INT64, DType.UINT64, DType.UINT32):
        low = -depth - 1 if found.type.dtype is DType.INT64 else 0
        found = c.add(Max(), found, c.scalar(low, found.type.dtype))
        found = c.add(Min(), found, c.scalar(depth, found.type.dtype))
    return c.cast(found, DType.INT32)


def _cumulative(op: type[CumSum] | type[CumProd]) -> Convert:
    def convert(c: Context) -> Value:
        axis = c.axis(int(c.number(1, "axis")), c.rank)
        flags = {name: c.int(name, 0) for name in ("exclusive", "reverse")}
        c.require(set(flags.values()) <= {0, 1}, f"has {flags}, which are 0 or 1")
        return c.add(op(axis, c.flag("exclusive"), c.flag("reverse")), c.x)

    convert.__doc__ = f"Cumulative {'sums' if op is CumSum else 'products'} along an axis"
    return convert


operator("CumSum", 11, 14, inputs=2)(_cumulative(CumSum))
operator("CumProd", 26, inputs=2)(_cumulative(CumProd))


@operator("ReverseSequence", 10, 28, inputs=2, any_type=True)
def reverse_sequence(c: Context) -> Value:
    """The first entries along the time axis backwards, so many for each of the batch"""
    batch = c.axis(c.int("batch_axis", 1), c.rank)
    time = c.axis(c.int("time_axis", 0), c.rank)
    lengths = c.indices(1, c.x.type.dims[time] + 1, from_end=False)
    return c.add(ReverseSequence(batch, time), c.x, lengths)
