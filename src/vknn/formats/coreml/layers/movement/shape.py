"""Reshaping, broadcasting, tiling and padding: by the file, another blob, or data."""

from __future__ import annotations

import math

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.movement.legacy_shapes import resolve_shape
from vknn.formats.coreml.layers.sources import requested_shape
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Expand, Pad


def _reshaped(c: Context, shape: list[int], what: str) -> Value:
    c.require(len(shape) > 0, f"{what} is empty")
    return c.reshape(c.x, resolve_shape(c, shape, c.x.type.size, what))


@layer("reshapeStatic")
def reshape_static(c: Context) -> Value:
    """The input in a shape of the file, of which one size may be -1."""
    return _reshaped(c, list(c.params.targetShape), "targetShape")


@layer("reshapeLike", inputs=2)
def reshape_like(c: Context) -> Value:
    """The input in the shape of the second input."""
    return _reshaped(c, list(c.value(1).type.dims), "the shape of its second input")


@layer("reshapeDynamic", inputs=2)
def reshape_dynamic(c: Context) -> Value:
    """The input in the shape that the second input holds, of which one size may be -1."""
    return _reshaped(c, c.ints(1, "the shape"), "the shape")


@layer("rankPreservingReshape")
def rank_preserving_reshape(c: Context) -> Value:
    """The input in another shape of its rank; 0 keeps a size, one may be -1."""
    dims, target = c.x.type.dims, list(c.params.targetShape)
    c.require(len(target) == len(dims), f"targetShape {target} has another rank than {c.x.type}")
    kept = [size if wanted == 0 else wanted for size, wanted in zip(dims, target, strict=True)]
    return _reshaped(c, kept, "targetShape")


def _axes(c: Context, axes: list[int], rank: int) -> list[int]:
    found = [c.axis(a, rank) for a in axes]
    c.require(len(set(found)) == len(found), f"axes {axes} name one twice")
    return found


@layer("squeeze")
def squeeze(c: Context) -> Value:
    """The input without the axes of size 1 that are named, or without all; one axis stays."""
    dims = c.x.type.dims
    if c.params.squeezeAll:
        axes = [a for a, size in enumerate(dims) if size == 1]
    else:
        axes = _axes(c, list(c.params.axes), len(dims))
    longer = [a for a in axes if dims[a] != 1]
    c.require(not longer, f"cannot drop axis {longer[:1]} of {c.x.type}")
    return c.reshape(c.x, [s for a, s in enumerate(dims) if a not in axes] or [1])


@layer("expandDims")
def expand_dims(c: Context) -> Value:
    """The input with axes of size 1 inserted, numbered as in the output."""
    listed = list(c.params.axes)
    c.require(len(listed) > 0, "names no axes")
    rank = c.x.type.rank + len(listed)
    axes, left = _axes(c, listed, rank), iter(c.x.type.dims)
    return c.reshape(c.x, [1 if a in axes else next(left) for a in range(rank)])


@layer("flattenTo2D")
def flatten_to_2d(c: Context) -> Value:
    """[axes before ``axis``, axes from it on]."""
    dims, axis = c.x.type.dims, c.params.axis
    c.require(-len(dims) <= axis <= len(dims), f"axis {axis} does not exist in {c.x.type}")
    axis = axis + len(dims) if axis < 0 else axis
    return c.reshape(c.x, (math.prod(dims[:axis]), math.prod(dims[axis:])))


def _broadcast(c: Context, shape: tuple[int, ...]) -> Value:
    dims = c.x.type.dims
    lead = len(shape) - len(dims)
    fits = lead >= 0 and all(d in (1, s) for d, s in zip(dims, shape[lead:], strict=True))
    c.require(fits, f"{c.x.type} does not broadcast to {list(shape)}")
    return c.x if dims == shape else c.add(Expand(shape), c.x)


@layer("broadcastToStatic")
def broadcast_to_static(c: Context) -> Value:
    """The input broadcast to a shape of the file."""
    return _broadcast(c, requested_shape(c, tuple(c.params.targetShape), "targetShape"))


@layer("broadcastToLike", inputs=2)
def broadcast_to_like(c: Context) -> Value:
    """The input broadcast to the shape of the second input."""
    return _broadcast(c, c.value(1).type.dims)


@layer("broadcastToDynamic", inputs=2)
def broadcast_to_dynamic(c: Context) -> Value:
    """The input broadcast to the shape that the second input holds."""
    return _broadcast(c, requested_shape(c, c.ints(1, "the shape"), "the shape"))


@layer("tile", inputs=(1, 2))
def tile(c: Context) -> Value:
    """Repetitions along each axis; fewer numbers than axes are those of the last axes."""
    given = c.ints(1, "reps") if len(c.inputs) > 1 else list(c.params.reps)
    dims = c.x.type.dims
    good = 1 <= len(given) <= len(dims) and min(given) > 0
    c.require(good, f"reps {given} do not suit {c.x.type}")
    reps = [1] * (len(dims) - len(given)) + [int(r) for r in given]
    requested_shape(c, [s * r for s, r in zip(dims, reps, strict=True)], "reps")
    return c.x if set(reps) == {1} else c.add(Tile(tuple(reps)), c.x)


@layer("constantPad", inputs=(1, 2))
def constant_pad(c: Context) -> Value:
    """A constant before and after each axis: by amounts, or up to sizes of the output.

    Up to sizes: of the two numbers of an axis the one that is not 0 is the size, and its side gets
    the constant; a longer axis stays unchanged.
    """
    p, dims = c.params, c.x.type.dims
    given = c.ints(1, "the amounts") if len(c.inputs) > 1 else list(p.padAmounts)
    suits = len(given) == 2 * len(dims) and min(given) >= 0
    c.require(suits, f"padAmounts {given} should be two numbers for each axis of {c.x.type}")
    before, after = given[::2], given[1::2]
    if p.padToGivenOutputSizeMode:
        twice = any(a and b for a, b in zip(before, after, strict=True))
        c.require(not twice, f"padAmounts {given} give two sizes for one axis")
        before = [max(0, b - s) for b, s in zip(before, dims, strict=True)]
        after = [max(0, a - s) for a, s in zip(after, dims, strict=True)]
    sizes = [s + b + a for s, b, a in zip(dims, before, after, strict=True)]
    requested_shape(c, sizes, "padAmounts")
    padded = any((*before, *after))
    return c.add(Pad((*before, *after), "constant", p.value), c.x) if padded else c.x
