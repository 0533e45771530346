"""stack, concatND, splitND and transpose."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.movement.legacy_shapes import parts
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops.movement.shape import Concat


def _same(c: Context) -> tuple[int, ...]:
    """The shape that all inputs have. Raises Malformed where they differ."""
    shapes = [v.type.dims for v in c.inputs]
    c.require(len(set(shapes)) == 1, f"its inputs have different shapes: {shapes}")
    return shapes[0]


def _stacked(c: Context, axis: int) -> Value:
    dims = _same(c)
    shape = (*dims[:axis], 1, *dims[axis:])
    return c.add(Concat(axis), *(c.reshape(v, shape) for v in c.inputs))


@layer("stack", inputs=(2, None))
def stack(c: Context) -> Value:
    """Blobs of one shape side by side along a new axis of the output."""
    return _stacked(c, c.axis(c.params.axis, len(_same(c)) + 1))


@layer("concatND", inputs=(2, None))
def concat_nd(c: Context) -> Value:
    """Concatenation along an axis; interleaved: the first entries of all, then the second ones."""
    axis = c.axis(c.params.axis, c.x.type.rank)
    if not c.params.interleave:
        return c.add(Concat(axis), *c.inputs)
    dims = _same(c)
    joined = (*dims[:axis], dims[axis] * len(c.inputs), *dims[axis + 1 :])
    return c.reshape(_stacked(c, axis + 1), joined)


@layer("splitND", outputs=(1, None))
def split_nd(c: Context) -> list[Value]:
    """Parts of an axis, of the sizes listed or nearly equal: the first ones may be larger by 1."""
    p, dims = c.params, c.x.type.dims
    axis = c.axis(p.axis, len(dims))
    sizes, count = [int(s) for s in p.splitSizes], int(p.numSplits)
    if not sizes:
        good = 0 < count <= dims[axis]
        c.require(good, f"cannot split axis {axis} of {c.x.type} into {count}")
        size, more = divmod(dims[axis], count)
        sizes = [size + 1] * more + [size] * (count - more)
    c.require(sum(sizes) == dims[axis], f"parts of {sizes} do not make up axis {axis} of {dims}")
    return parts(c, axis, sizes)


@layer("transpose")
def transpose(c: Context) -> Value:
    """Transpose: axis i of the output is axis axes[i] of the input.

    The input may lack leading axes of size 1: images have one more than arrays in their place.
    """
    axes, dims = [int(a) for a in c.params.axes], c.x.type.dims
    beyond = max(0, len(dims) - len(axes))
    suits = sorted(axes) == list(range(len(dims) - beyond)) and set(dims[:beyond]) <= {1}
    c.require(suits and bool(axes), f"axes {axes} do not permute those of {c.x.type}")
    return c.transpose(c.reshape(c.x, dims[beyond:]), axes)
