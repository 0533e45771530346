"""AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D and REDUCE_WINDOW."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import activate
from vknn.formats.tflite.layers.common.quantization import activation_bounds
from vknn.formats.tflite.layers.common.windows import empty_output, image_sizes, padding, strides
from vknn.formats.tflite.registry import operator, quantized
from vknn.formats.window_reduction import AxisWindow, reduced_windows
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.pooling.pool import AveragePool, MaxPool

#: Numbers of the functions of REDUCE_WINDOW -> those of ReduceWindow.
_FUNCTIONS = {1: "add", 2: "mul", 3: "min", 4: "max", 5: "min", 6: "max"}
_ALL = 5
_OF_BOOL = {"add": "max", "mul": "min"}


def window(c: Context) -> tuple[tuple[int, int], tuple[int, int], tuple[int, ...]]:
    """Kernel, strides and pads of a pool over height and width."""
    _, height, width, _ = image_sizes(c, c.x)
    kernel = (c.options["filter_height"], c.options["filter_width"])
    steps = strides(c)
    return kernel, steps, padding(c, (height, width), kernel, steps)


def _empty_output(c: Context) -> Value | None:
    kernel = (c.options["filter_height"], c.options["filter_width"])
    c.require(min(kernel) > 0, f"has a window of {kernel}")
    return empty_output(c, image_sizes(c, c.x)[3], kernel)


@operator("AVERAGE_POOL_2D")
def average_pool(c: Context) -> Value:
    """Mean of the cells of each window that are inside the image."""
    if (empty := _empty_output(c)) is not None:
        return empty
    return activate(c, c.channels_last(c.add(AveragePool(*window(c)), c.channels_second(c.x))))


@operator("MAX_POOL_2D")
def max_pool(c: Context) -> Value:
    """Largest cell of each window."""
    if (empty := _empty_output(c)) is not None:
        return empty
    return activate(c, c.channels_last(c.add(MaxPool(*window(c)), c.channels_second(c.x))))


@quantized("AVERAGE_POOL_2D", "MAX_POOL_2D")
def quantized_pool(c: Context) -> Value:
    """Pooling of the stored integers, which keep their scale; means round half away from zero."""
    if (empty := _empty_output(c)) is not None:
        return empty
    c.require(c.x.type.dtype.is_integer, f"pools {c.x.type} into a quantized tensor")
    op = AveragePool(*window(c)) if c.operator.code == "AVERAGE_POOL_2D" else MaxPool(*window(c))
    y = c.add(op, c.channels_second(c.x))
    info, limits = (
        np.iinfo(y.type.dtype.numpy),
        activation_bounds(c, c.options["fused_activation_function"]),
    )
    if limits != (info.min, info.max):
        y = c.add(ew.Clip(*limits), y)
    return c.channels_last(y)


@operator("L2_POOL_2D")
def l2_pool(c: Context) -> Value:
    """Square root of the mean of the squares in each window."""
    if (empty := _empty_output(c)) is not None:
        return empty
    squares = c.add(ew.Square(), c.channels_second(c.x))
    mean = c.add(AveragePool(*window(c)), squares)
    return activate(c, c.channels_last(c.add(ew.Sqrt(), mean)))


@operator("REDUCE_WINDOW", inputs=5, takes_quantized=True)
def reduce_window(c: Context) -> Value:
    """Windows over all axes, each joined to one element; integers wrap around.

    Of bool, and for ALL and ANY of numbers that are not 0, sums are "or", products "and".

    TensorFlow Lite differs: whether the extreme of a window with a NaN is NaN depends on where the
    NaN stands; here it is.
    """
    x, init, number = c.x, c.value(1), c.options["reduce_function"]
    c.require(number in _FUNCTIONS, f"has the function number {number}; it should be 1 to 6")
    single = init.type.size == 1 and init.type.dtype is x.type.dtype
    c.require(single, f"begins with {init.type}, not one {x.type.dtype.value}")
    sizes, steps, apart = (
        _of_each_axis(c, place, what)
        for place, what in ((2, "the window"), (3, "the strides"), (4, "the dilations"))
    )
    windows = [AxisWindow(s, stride=t, dilation=a)
               for s, t, a in zip(sizes, steps, apart, strict=True)]  # fmt: skip
    function, init, dtype = _FUNCTIONS[number], c.reshape(init, ()), x.type.dtype
    if number >= _ALL:
        x, init = c.cast(x, DType.BOOL), c.cast(init, DType.BOOL)
    if x.type.dtype is DType.BOOL:
        function = _OF_BOOL.get(function, function)
    return c.cast(reduced_windows(c, x, function, init, windows), dtype)


def _of_each_axis(c: Context, number: int, what: str) -> list[int]:
    """An input of a number of 1 or more for each axis of the first."""
    found = c.ints(number, what)
    good = len(found) == c.x.type.rank and min(found, default=1) >= 1
    c.require(good, f"has {what} {found} for {c.x.type}: one number for each axis, from 1 on")
    return found
