"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import activate
from vknn.formats.tflite.layers.common.quantization import activation_bounds
from vknn.formats.tflite.layers.common.windows import empty_output, image_sizes, padding, strides
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.pooling.pool import AveragePool, MaxPool


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
