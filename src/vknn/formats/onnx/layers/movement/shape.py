"""Operators that change or state shapes."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.axes import axis_set, int_values, normal_axes
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Expand, Transpose

_ALL = (1, 13, 21, 23, 24, 25)


@operator("Reshape", 1, 5, 13, 14, 19, 21, 23, 24, 25, inputs=(1, 2), any_type=True)
def reshape(c: Context) -> Value:
    """The elements in another shape; 0 keeps the size there was, -1 is worked out"""
    wanted = int_values(c, "shape", 1, 5)
    if wanted is None:
        c.fail("has no shape")
    dims = c.x.type.dims
    if not (c.version >= 14 and c.flag("allowzero")):
        inside = all(d != 0 or i < len(dims) for i, d in enumerate(wanted))
        c.require(inside, f"keeps sizes that {c.x.type} lacks: {wanted}")
        wanted = [dims[i] if d == 0 else d for i, d in enumerate(wanted)]
    c.require(wanted.count(-1) <= 1 and min(wanted, default=0) >= -1, f"{wanted} is no shape")
    if -1 in wanted:
        known = math.prod(d for d in wanted if d != -1)
        fits = known > 0 and c.x.type.size % known == 0
        c.require(fits, f"{c.x.type} does not fill the shape {wanted}")
        wanted[wanted.index(-1)] = c.x.type.size // known
    c.require(math.prod(wanted) == c.x.type.size, f"{c.x.type} does not fill the shape {wanted}")
    return c.reshape(c.x, wanted)


@operator("Flatten", 1, 9, 11, 13, 21, 23, 24, 25, any_type=True)
def flatten(c: Context) -> Value:
    """A matrix: the axes before ``axis``, and those from it on"""
    axis, dims = c.int("axis", 1), c.x.type.dims
    c.require(-len(dims) <= axis <= len(dims), f"axis {axis} does not exist in {c.x.type}")
    axis = axis + len(dims) if axis < 0 else axis
    return c.reshape(c.x, (math.prod(dims[:axis]), math.prod(dims[axis:])))


@operator("Squeeze", 1, 11, 13, 21, 23, 24, 25, inputs=(1, 2), any_type=True)
def squeeze(c: Context) -> Value:
    """Without axes of size 1"""
    dims, axes = c.x.type.dims, int_values(c, "axes", 1, 13)
    if not axes:  # of no axes onnxruntime drops all that can go, as where there is no list
        return c.reshape(c.x, [d for d in dims if d != 1])
    gone = axis_set(c, axes, len(dims))
    c.require(all(dims[a] == 1 for a in gone), f"the axes {axes} of {c.x.type} are not of size 1")
    return c.reshape(c.x, [d for a, d in enumerate(dims) if a not in gone])


@operator("Unsqueeze", 1, 11, 13, 21, 23, 24, 25, inputs=(1, 2), any_type=True)
def unsqueeze(c: Context) -> Value:
    """New axes of size 1, whose places are counted in the result"""
    axes = int_values(c, "axes", 1, 13, scalar=True)
    if axes is None:
        c.fail("has no axes")
    new = normal_axes(c, axes, c.rank + len(axes))
    sizes = iter(c.x.type.dims)
    return c.reshape(c.x, [1 if a in new else next(sizes) for a in range(c.rank + len(axes))])


@operator("Transpose", *_ALL, any_type=True)
def transpose(c: Context) -> Value:
    """Axis i from axis perm[i]; by default the last axis first"""
    perm = c.int_list("perm", tuple(range(c.rank))[::-1], c.rank)
    c.require(sorted(perm) == list(range(c.rank)), f"has the perm {list(perm)} for {c.x.type}")
    return c.add(Transpose(tuple(perm)), c.x)


@operator("Expand", 8, 13, inputs=2, any_type=True)
def expand(c: Context) -> Value:
    """The tensor broadcast with a shape by NumPy's rules"""
    wanted = c.vector(1, "shape")
    c.require(min(wanted, default=0) >= 0, f"{wanted} is no shape")
    return c.add(Expand(tuple(wanted)), c.x)


@operator("Tile", 1, inputs=3, any_type=True)
def tile_axis(c: Context) -> Value:
    """The tensor repeated along one axis"""
    count, axis = c.number(1, "tiles"), c.axis(int(c.number(2, "axis")), c.rank)
    repeats = [1] * c.rank
    repeats[axis] = int(count)
    return c.add(Tile(tuple(repeats)), c.x)


@operator("Tile", 6, 13, inputs=2, any_type=True)
def tile(c: Context) -> Value:
    """The tensor repeated along each axis"""
    return c.add(Tile(tuple(c.vector(1, "repeats"))), c.x)


@operator("Shape", 1, 13, 15, 19, 21, 23, 24, 25, any_type=True)
def shape(c: Context) -> Value:
    """The sizes of the axes from ``start`` to ``end``"""
    part = slice(c.int("start", 0), c.int("end", None)) if c.version >= 15 else slice(None)
    return c.constant(np.asarray(c.x.type.dims[part], np.int64), "shape")


@operator("Size", 1, 13, 19, 21, 23, 24, 25, any_type=True)
def size(c: Context) -> Value:
    """The number of elements"""
    return c.constant(np.asarray(c.x.type.size, np.int64), "size")
