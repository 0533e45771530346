"""Shapes of convolutions and matrix products as the schema's operators state them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.windows import dilations, padding, strides, window_outputs
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Slice


class Geometry(NamedTuple):
    """The attributes of a convolution, in the order of the ops."""

    strides: tuple[int, int]
    pads: tuple[int, ...]
    dilations: tuple[int, int]
    group: int = 1


def no_windows(
    c: Context, channels: int, kernel: tuple[int, int], spread: tuple[int, int] = (1, 1)
) -> Value | None:
    """The empty output of a convolution or a pool whose windows do not fit; None where they do."""
    count, *sizes, _ = image_sizes(c, c.x)
    found = window_outputs(c, (sizes[0], sizes[1]), kernel, strides(c), spread)
    if all(found):
        return None
    return c.constant(np.zeros((count, *found, channels), c.target().dtype.numpy), "nothing")


class TransposedGeometry(NamedTuple):
    """The attributes of a transposed convolution, in the order of the ops."""

    strides: tuple[int, int]
    pads: tuple[int, ...]
    dilations: tuple[int, int]
    group: int
    output_padding: tuple[int, ...]


def image_sizes(c: Context, x: Value) -> tuple[int, int, int, int]:
    """n, h, w, c of an NHWC tensor."""
    c.require(x.type.rank == 4, f"takes a tensor of rank 4, not {x.type}")
    n, h, w, channels = x.type.dims
    return n, h, w, channels


_MOST_AXES = 5
#: The types of weights beside each type of data. CONV_2D is less strict.
_WEIGHTS = {
    DType.FLOAT32: (DType.FLOAT32, DType.INT8),
    DType.INT8: (DType.INT8,),
    DType.UINT8: (DType.UINT8,),
    DType.INT16: (DType.INT8,),
}


def _check_types(c: Context, x: Value, bias: Value | None) -> None:
    """Refuses data, weights and biases of types that no kernel takes together."""
    given, w = x.type.dtype, c.value(1).type.dtype
    known = _WEIGHTS.get(given, ())
    if c.operator.code == "CONV_2D" and given in (DType.FLOAT32, DType.UINT8, DType.INT16):
        known = (*known, DType.INT8, DType.UINT8)
    c.require(w in known, f"has weights of {w.value} for data of {given.value}")
    narrow = c.operator.code == "DEPTHWISE_CONV_2D" and given is DType.INT16
    if narrow and bias is not None:
        c.require(bias.type.dtype is DType.INT64, f"has a bias of {bias.type.dtype.value}")


def conv_geometry(c: Context) -> Geometry:
    """CONV_2D: weights [out, kh, kw, in / groups]; groups follow from the channels."""
    _, height, width, channels = image_sizes(c, c.x)
    outputs, kh, kw, depth = image_sizes(c, c.value(1))
    _check_types(c, c.x, c.optional(2))
    c.require(depth > 0 and channels % depth == 0, f"has {channels} channels, its weights {depth}")
    group = channels // depth
    c.require(outputs % group == 0, f"has {outputs} outputs in {group} groups")
    steps, spread = strides(c), dilations(c)
    return Geometry(steps, padding(c, (height, width), (kh, kw), steps, spread), spread, group)


def depthwise_geometry(c: Context) -> Geometry:
    """DEPTHWISE_CONV_2D: weights [1, kh, kw, channels * multiplier]."""
    _, height, width, channels = image_sizes(c, c.x)
    w = c.value(1)
    one, kh, kw, outputs = image_sizes(c, w)
    _check_types(c, c.x, c.optional(2))
    c.require(one == 1 and channels > 0 and outputs % channels == 0,
              f"has weights {w.type} for {channels} channels")  # fmt: skip
    steps, spread = strides(c), dilations(c)
    return Geometry(steps, padding(c, (height, width), (kh, kw), steps, spread), spread, channels)


def no_output(c: Context) -> Value | None:
    """The empty output of a convolution whose windows do not fit; None where they do."""
    outputs, kh, kw, last = c.value(1).type.dims
    channels = last if c.operator.code == "DEPTHWISE_CONV_2D" else outputs
    return no_windows(c, channels, (kh, kw), dilations(c))


def transposed_geometry(c: Context) -> TransposedGeometry:
    """TRANSPOSE_CONV: inputs output_shape, weights [out, kh, kw, in], x.

    What is cut off follows from the size of the output, of which a convolution must make the size
    of the input: the scattered products that lie outside of it are lost, and where none come it
    holds the bias.
    """
    _, height, width, channels = image_sizes(c, c.value(2))
    w, shape = c.value(1), c.ints(0, "the output's shape")
    outputs, kh, kw, depth = image_sizes(c, w)
    _check_types(c, c.value(2), c.optional(3))
    c.require(depth == channels, f"has {channels} channels, its weights {depth}")
    fits = len(shape) == 4 and shape[0] == c.value(2).type.dims[0] and shape[3] == outputs
    c.require(fits and min(shape) > 0, f"gives the shape {shape} from weights {w.type}")
    steps = strides(c)
    made = window_outputs(c, (shape[1], shape[2]), (kh, kw), steps)
    c.require(made == (height, width), f"gives the shape {shape} of images {height} x {width}")
    begins = padding(c, (shape[1], shape[2]), (kh, kw), steps)[:2]
    full = [(size - 1) * step + k
            for size, step, k in zip((height, width), steps, (kh, kw), strict=True)]  # fmt: skip
    over = [f - b - size for f, b, size in zip(full, begins, shape[1:3], strict=True)]
    ends = [max(o, 0) for o in over]
    extra = tuple(max(-o, 0) for o in over)
    return TransposedGeometry(steps, (*begins, *ends), (1, 1), 1, extra)


def rows(c: Context, x: Value, depth: int) -> Value:
    """``x`` as a matrix whose rows have ``depth`` elements; what is left of it does not count."""
    count, size = x.type.size // depth, x.type.size
    if size % depth:
        x = c.add(Slice((0,), (count * depth,)), c.reshape(x, (size,)))
    return c.reshape(x, (count, depth))


def fully_connected_weights(c: Context) -> tuple[int, int]:
    """Units and depth of the weights [units, depth]."""
    w = c.value(1)
    c.require(w.type.rank == 2, f"has weights {w.type}")
    quant = c.source(1).quant
    axis = 0 if quant is None else quant.axis
    c.require(axis == 0, f"has weights with scales along axis {axis}")
    units, depth = w.type.dims
    return units, depth


def fully_connected_shape(c: Context, x: Value, units: int, depth: int) -> tuple[int, ...]:
    """The shape of the output: all leading axes where ``keep_num_dims``, else a matrix."""
    if c.options["keep_num_dims"]:
        fits = x.type.rank > 0 and x.type.dims[-1] == depth
        c.require(fits, f"keeps the axes of {x.type} with rows of {depth}")
        return (*x.type.dims[:-1], units)
    return (x.type.size // depth if depth else math.prod(x.type.dims[:-1]), units)


def no_rows(c: Context, units: int) -> Value:
    """What rows without elements give: zeros, whatever the bias and the activation."""
    shape = fully_connected_shape(c, c.x, units, 0)
    return c.constant(np.zeros(shape, c.target().dtype.numpy), "zeros")


def matrices(c: Context) -> None:
    """Refuses operands of BATCH_MATMUL whose ranks its kernels do not take."""
    for value in (c.x, c.value(1)):
        c.require(2 <= value.type.rank <= _MOST_AXES, f"multiplies {value.type}")
