"""Elements by indices that are data."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.along_axis import flat_places
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops.elementwise import Add
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.indexing.gather import Gather, GatherND
from vknn.ops.indexing.scatter import ScatterND


@operator("Gather", 1, 11, 13, inputs=2, any_type=True)
def gather(c: Context) -> Value:
    """Entries along an axis; the indices' axes take its place"""
    axis = c.axis(c.int("axis", 0), c.rank)
    # Negative indices are of version 11; onnxruntime takes them before, and exporters wrote them.
    return c.add(Gather(axis), c.x, c.indices(1, c.x.type.dims[axis]))


@operator("GatherND", 11, 12, 13, inputs=2, any_type=True)
@operator("GatherND", 1, inputs=2, domain=MICROSOFT, any_type=True)
def gather_nd(c: Context) -> Value:
    """Entries at tuples of indices"""
    batch, tuples = c.int("batch_dims", 0), c.value(1).type
    c.require(tuples.rank >= 1, f"has no tuples of indices: {tuples}")
    count = tuples.dims[-1]
    good = 0 <= batch < tuples.rank and batch + count <= c.rank
    c.require(good, f"{batch} batch axes and tuples {tuples} do not suit {c.x.type}")
    sizes = c.x.type.dims[batch : batch + count]
    return c.add(GatherND(batch), c.x, c.indices(1, sizes))


@operator("GatherElements", 11, 13, inputs=2, any_type=True)
def gather_elements(c: Context) -> Value:
    """y[i][j] = x[index[i][j]][j] along an axis"""
    _, flat = _along_axis(c)
    return c.add(Gather(0, from_end=False), c.reshape(c.x, (c.x.type.size,)), flat)


@operator("ScatterElements", 11, 13, 16, 18, inputs=3, any_type=True)
@operator("Scatter", 9, 11, inputs=3, any_type=True)
def scatter_elements(c: Context) -> Value:
    """x with y[index[i][j]][j] = updates[i][j] along an axis, or combined with it"""
    _, flat = _along_axis(c)
    updates, dims = c.value(2), c.x.type.dims
    same = updates.type.dims == flat.type.dims
    c.require(same, f"updates {updates.type} and indices {flat.type} differ in shape")
    count = updates.type.size
    op = ScatterND(_reduction(c), from_end=False)
    x = c.reshape(c.x, (c.x.type.size,))
    found = c.add(op, x, c.reshape(flat, (count, 1)), c.reshape(updates, (count,)))
    return c.reshape(found, dims)


@operator("ScatterND", 11, 13, 16, 18, inputs=3, any_type=True)
def scatter_nd(c: Context) -> Value:
    """x with entries at tuples of indices replaced by, or combined with, updates"""
    tuples = c.value(1).type
    good = tuples.rank >= 1 and tuples.dims[-1] <= c.rank
    c.require(good, f"tuples {tuples} do not suit {c.x.type}")
    places = c.indices(1, c.x.type.dims[: tuples.dims[-1]])
    return c.add(ScatterND(_reduction(c)), c.x, places, c.value(2))


def _reduction(c: Context) -> str:
    known = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}
    found: str = c.text("reduction", "none", known.get(c.version, ("none",)))
    return found


def _along_axis(c: Context) -> tuple[int, Value]:
    """The axis, and the second input as row-major indices into the whole of x."""
    dims, other = c.x.type.dims, c.value(1).type.dims
    axis = c.axis(c.int("axis", 0), c.rank)
    same = len(dims) == len(other)
    same = same and all(
        o <= d or a == axis for a, (o, d) in enumerate(zip(other, dims, strict=True))
    )
    c.require(same, f"indices {list(other)} do not suit {c.x.type} along axis {axis}")
    size = dims[axis]
    places = c.indices(1, size)
    zero = c.scalar(0, DType.INT32)
    wrapped = c.add(Add(), places, c.scalar(size, DType.INT32))
    places = c.add(Where(), c.add(Less(), places, zero), wrapped, places)
    return axis, flat_places(c, dims, places, axis)
