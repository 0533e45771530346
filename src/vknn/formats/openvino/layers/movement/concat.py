"""Concat, Split and Slice along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.movement import shape as ops


@layer("Concat", inputs=(1, None))
def concat(c: Context) -> Value:
    axis = c.axis(c.int("axis", 1), c.rank)
    return c.add(ops.Concat(axis), *same_dtype(c, c.inputs)) if len(c.inputs) > 1 else c.x


def same_dtype(c: Context, values: Sequence[Value]) -> list[Value]:
    """The values in one dtype: float32 where one of them is, otherwise int32."""
    dtypes = {v.type.dtype for v in values}
    if len(dtypes) == 1:
        return list(values)
    common = DType.FLOAT32 if any(d.is_float for d in dtypes) else DType.INT32
    return [c.cast(v, common) for v in values]


@layer("Split", outputs=(1, None))
def split(c: Context) -> Sequence[Value]:
    """Parts along an axis: equal ones, or of the output ports' sizes."""
    return _parts(c, _sizes(c, even=True))


@layer("Slice", outputs=(1, None))
def slice_(c: Context) -> Sequence[Value]:
    """Parts along an axis, of the output ports' sizes."""
    return _parts(c, _sizes(c, even=False))


def _sizes(c: Context, even: bool) -> list[int]:
    """Sizes of the parts along the axis."""
    axis = c.axis(c.int("axis", 1), c.rank)
    size, count = c.x.type.dims[axis], len(c.layer.outputs)
    c.require(c.int("num_split", count) == count, f"has {count} outputs, not num_split")
    ports = [port.dims for port in c.layer.outputs]
    c.require(all(len(p) == c.rank for p in ports), f"its outputs are not of rank {c.rank}")
    stated = [port[axis] for port in ports]
    if sum(stated) == size:
        return stated
    if c.layer.inputs[0].dims[axis] == size:
        c.fail(f"its parts of {stated} do not make up {size} along axis {axis}")
    # Another size than the file's: even parts stay even, others cannot be known.
    if len(set(stated)) > 1 and not even:
        c.declared()
    c.require(len(set(stated)) == 1 and size % count == 0, f"{size} is not split {count} times")
    return [size // count] * count


def _parts(c: Context, sizes: Sequence[int]) -> list[Value]:
    axis = c.axis(c.int("axis", 1), c.rank)
    parts, start = [], 0
    for size in sizes:
        end = start + size
        whole = start == 0 and end == c.x.type.dims[axis]
        parts.append(c.x if whole else c.add(ops.Slice((start,), (end,), (axis,)), c.x))
        start = end
    return parts
