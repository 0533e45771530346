"""Operators that make tensors of attributes, shapes and few numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.records import TensorProtoRecord
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops.elementwise.logic import Where
from vknn.ops.movement.shape import Expand


@operator("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25, inputs=0, any_type=True)
def constant(c: Context) -> Value:
    """A tensor of the file"""
    names = [name for name in _CONSTANTS if c.has(name)]
    c.require(len(names) == 1, f"has the values {', '.join(names) or 'none'}, not one")
    found = c.attribute(names[0])
    assert found is not None
    if isinstance(found.value, TensorProtoRecord):
        return c.constant(found.value.array, "value")
    kind, dtype = _CONSTANTS[names[0]]
    c.require(found.kind == kind, f"{names[0]} is of the kind {found.kind}")
    value: Any = found.value
    if dtype is DType.STRING:
        _ = (c.text if kind == "string" else c.texts)(names[0])  # refuses what is no UTF-8
        made = np.empty(len(value) if isinstance(value, tuple) else (), object)
        made[...] = list(value) if isinstance(value, tuple) else value
        return c.constant(made, "value")
    return c.constant(np.asarray(value, dtype.numpy), "value")


_CONSTANTS = {
    "value": ("tensor", DType.FLOAT32), "sparse_value": ("sparse_tensor", DType.FLOAT32),
    "value_float": ("float", DType.FLOAT32), "value_floats": ("floats", DType.FLOAT32),
    "value_int": ("int", DType.INT64), "value_ints": ("ints", DType.INT64),
    "value_string": ("string", DType.STRING), "value_strings": ("strings", DType.STRING),
}  # fmt: skip


@operator("ConstantOfShape", 9, 20, 21, 23, 24, 25, any_type=True)
def constant_of_shape(c: Context) -> Value:
    """One number in all places of a shape"""
    dims = c.vector(0, "shape")
    c.require(min(dims, default=0) >= 0, f"{dims} is no shape")
    value = c.tensor("value", np.zeros(1, np.float32))
    c.require(value.size == 1, f"its value has {value.size} elements, not 1")
    return c.add(Expand(tuple(dims)), c.constant(value.reshape(()), "value"))


@operator("Range", 11, 27, inputs=3)
@operator("Range", 1, inputs=(2, 3), domain=MICROSOFT)
def number_range(c: Context) -> Value:
    """start, start + delta, ... up to but without limit"""
    start, limit = (c.data(i).reshape(-1)[:1] for i in range(2))
    delta = np.ones(1, start.dtype) if c.optional(2) is None else c.data(2).reshape(-1)[:1]
    c.require(start.size == limit.size == delta.size == 1, "takes one start, limit and delta")
    same = start.dtype == limit.dtype == delta.dtype and start.dtype.kind in "iuf"
    c.require(same, f"takes numbers of one type, not {start.dtype}, {limit.dtype}, {delta.dtype}")
    c.require(bool(delta[0] != 0), "has a delta of 0")
    if start.dtype.kind == "f":
        steps = float(np.ceil((limit - start)[0] / delta[0]))
        c.require(math.isfinite(steps), f"goes from {start[0]} to {limit[0]} by {delta[0]}")
        count = max(int(steps), 0)
    else:
        first, last, step = (int(v[0]) for v in (start, limit, delta))
        count = max(-((first - last) // step), 0)
    places = np.arange(c.makeable(count))
    wide = np.float64 if start.dtype.kind == "f" else np.int64
    made = start.astype(wide) + places.astype(wide) * delta.astype(wide)
    return c.constant(made.astype(start.dtype), "range")


@operator("EyeLike", 9, 22, any_type=True)
def eye_like(c: Context) -> Value:
    """Ones on a diagonal of a matrix of zeros"""
    c.require(c.rank == 2, f"takes a matrix, not {c.x.type}")
    rows, columns = c.x.type.dims
    dtype: DType = c.dtype("dtype", c.x.type.dtype)
    c.makeable(rows * columns, np.dtype(np.float64))
    return c.constant(np.eye(rows, columns, c.int("k", 0)).astype(dtype.numpy), "eye")


@operator("Trilu", 14, inputs=(1, 2))
@operator("Trilu", 1, inputs=(1, 2), domain=MICROSOFT)
def trilu(c: Context) -> Value:
    """One triangle of matrices, zeros in the other"""
    c.require(c.rank >= 2, f"takes matrices, not {c.x.type}")
    rows, columns = c.x.type.dims[-2:]
    c.makeable(rows * columns, DType.BOOL)
    offset = 0 if c.optional(1) is None else int(c.number(1, "k"))
    offset = max(-rows - 1, min(offset, columns + 1))
    ones = np.ones((rows, columns), np.bool_)
    mask = np.triu(ones, offset) if c.flag("upper", True) else np.tril(ones, offset)
    zero = c.constant(np.zeros((), c.x.type.dtype.numpy), "zero")
    return c.add(Where(), c.constant(mask, "triangle"), c.x, zero)
