"""Strides, pads, dilations and groups of 2-D convolutions, as the schema's operators state them."""

from __future__ import annotations

from typing import NamedTuple

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.windows import (
    dilations,
    empty_output,
    image_sizes,
    padding,
    strides,
    window_outputs,
)
from vknn.graph import DType, Value


class Geometry(NamedTuple):
    """Attributes of Conv, in the order of its fields."""

    strides: tuple[int, int]
    pads: tuple[int, ...]
    dilations: tuple[int, int]
    group: int = 1


class TransposedGeometry(NamedTuple):
    """Attributes of ConvTranspose, in the order of its fields."""

    strides: tuple[int, int]
    pads: tuple[int, ...]
    dilations: tuple[int, int]
    group: int
    output_padding: tuple[int, ...]


#: Type of the data -> types of weights that the kernels take with it. CONV_2D takes more.
_WEIGHTS = {
    DType.FLOAT32: (DType.FLOAT32, DType.INT8),
    DType.INT8: (DType.INT8,),
    DType.UINT8: (DType.UINT8,),
    DType.INT16: (DType.INT8,),
}


def _check_types(c: Context, x: Value, bias: Value | None) -> None:
    """Raises Malformed for types of data, weights and bias that no kernel takes together."""
    given, w = x.type.dtype, c.value(1).type.dtype
    known = _WEIGHTS.get(given, ())
    if c.operator.code == "CONV_2D" and given in (DType.FLOAT32, DType.UINT8, DType.INT16):
        known = (*known, DType.INT8, DType.UINT8)
    c.require(w in known, f"has weights of {w.value} for data of {given.value}")
    wide_bias = c.operator.code == "DEPTHWISE_CONV_2D" and given is DType.INT16
    if wide_bias and bias is not None:
        c.require(bias.type.dtype is DType.INT64, f"has a bias of {bias.type.dtype.value}")


def conv_geometry(c: Context) -> Geometry:
    """Geometry of CONV_2D: weights [out, kh, kw, in / groups], groups from the channels of data."""
    _, height, width, channels = image_sizes(c, c.x)
    outputs, kh, kw, depth = image_sizes(c, c.value(1))
    _check_types(c, c.x, c.optional(2))
    c.require(depth > 0 and channels % depth == 0, f"has {channels} channels, its weights {depth}")
    group = channels // depth
    c.require(outputs % group == 0, f"has {outputs} outputs in {group} groups")
    steps, spread = strides(c), dilations(c)
    return Geometry(steps, padding(c, (height, width), (kh, kw), steps, spread), spread, group)


def depthwise_geometry(c: Context) -> Geometry:
    """Geometry of DEPTHWISE_CONV_2D: weights [1, kh, kw, channels * multiplier]."""
    _, height, width, channels = image_sizes(c, c.x)
    w = c.value(1)
    one, kh, kw, outputs = image_sizes(c, w)
    _check_types(c, c.x, c.optional(2))
    c.require(one == 1 and channels > 0 and outputs % channels == 0,
              f"has weights {w.type} for {channels} channels")  # fmt: skip
    steps, spread = strides(c), dilations(c)
    return Geometry(steps, padding(c, (height, width), (kh, kw), steps, spread), spread, channels)


def empty_conv_output(c: Context) -> Value | None:
    """Empty output of a convolution whose windows fit nowhere; None where one fits."""
    outputs, kh, kw, last = c.value(1).type.dims
    channels = last if c.operator.code == "DEPTHWISE_CONV_2D" else outputs
    return empty_output(c, channels, (kh, kw), dilations(c))


def transposed_geometry(c: Context) -> TransposedGeometry:
    """Geometry of TRANSPOSE_CONV: inputs output_shape, weights [out, kh, kw, in], x.

    A convolution with these strides and pads must turn the given output shape into the shape of x.
    Products that fall outside the output are dropped; output elements that get none hold the bias.
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
