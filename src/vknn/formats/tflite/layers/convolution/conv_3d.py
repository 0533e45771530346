"""CONV_3D and CONV_3D_TRANSPOSE on floats."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import activate
from vknn.formats.tflite.layers.common.windows import padding, window_outputs
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose

_AXES = ("d", "h", "w")


def _settings(c: Context) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations along depth, height and width, checked."""
    steps = tuple(c.options[f"stride_{axis}"] for axis in _AXES)
    spread = tuple(c.options[f"dilation_{axis}_factor"] for axis in _AXES)
    c.require(min(*steps, *spread) > 0, f"has the strides {steps} and the dilations {spread}")
    return steps, spread


def _check(c: Context, x: Value, w: Value) -> None:
    good = x.type.rank == w.type.rank == 5 and x.type.dtype is w.type.dtype is DType.FLOAT32
    c.require(good and min(w.type.dims) > 0, f"has data {x.type} and weights {w.type}")


@operator("CONV_3D", inputs=(2, 3))
def conv_3d(c: Context) -> Value:
    """3-D convolution; weights [kd, kh, kw, in, out]."""
    x, w = c.x, c.value(1)
    _check(c, x, w)
    steps, spread = _settings(c)
    made = window_outputs(c, x.type.dims[1:4], w.type.dims[:3], steps, spread)
    if 0 in made:
        shape = (x.type.dims[0], *made, w.type.dims[4])
        return c.constant(np.zeros(shape, np.float32), "empty")
    pads = padding(c, x.type.dims[1:4], w.type.dims[:3], steps, spread)
    weights = c.transpose(w, (4, 3, 0, 1, 2))
    y = c.add(Conv(steps, pads, spread), c.channels_second(x), weights, c.optional(2))
    return activate(c, c.channels_last(y))


@operator("CONV_3D_TRANSPOSE", inputs=(3, 4))
def conv_3d_transpose(c: Context) -> Value:
    """Transposed 3-D convolution; inputs: output shape, weights [kd, kh, kw, out, in], x, bias."""
    w, x, shape = c.value(1), c.value(2), c.ints(0, "the output's shape")
    _check(c, x, w)
    outputs, channels = w.type.dims[3:]
    fits = len(shape) == 5 and min(shape) > 0 and channels == x.type.dims[4]
    fits = fits and (shape[0], shape[4]) == (x.type.dims[0], outputs)
    c.require(fits, f"gives the shape {shape} from weights {w.type}")
    steps, spread = _settings(c)
    sizes, kernel, made = tuple(shape[1:4]), w.type.dims[:3], x.type.dims[1:4]
    c.require(window_outputs(c, sizes, kernel, steps, spread) == made,
              f"gives the shape {shape} of {x.type}")  # fmt: skip
    begins = padding(c, sizes, kernel, steps, spread)[:3]
    over = [
        (n - 1) * step + (k - 1) * dilation + 1 - begin - size
        for n, step, k, dilation, begin, size in zip(
            made, steps, kernel, spread, begins, sizes, strict=True
        )
    ]
    pads = (*begins, *(max(o, 0) for o in over))
    op = ConvTranspose(steps, pads, spread, 1, tuple(max(-o, 0) for o in over))
    weights = c.transpose(w, (4, 3, 0, 1, 2))
    y = c.add(op, c.channels_second(x), weights, c.optional(3))
    return activate(c, c.channels_last(y))
