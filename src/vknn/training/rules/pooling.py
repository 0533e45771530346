"""Gradients of pooling."""

from __future__ import annotations

import math

import numpy as np

from vknn.graph import Value
from vknn.ops.convolution.im2col import Col2Im
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.topk import ArgMax
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from vknn.ops.reduction import ReduceMean
from vknn.training.gradients import decomposition, gradient
from vknn.training.rules.convolution import WindowGeometry, columns_of, flattened, spread
from vknn.training.scope import Scope

#: Padding that is never the largest of a window.
LOWEST = float(np.finfo(np.float32).min)


@decomposition(MaxPool)
def max_pool_3d(g: Scope) -> Value | None:
    """Maximum over three axes: over the last two, then over the first."""
    op, x = g.op(MaxPool), g.x()
    if len(op.kernel) < 3:
        return None
    n, c, depth, *plane = x.type.dims
    steps, (before, after) = op.dilations or (1, 1, 1), op.pads[::3]
    planes = MaxPool(op.kernel[1:], op.strides[1:], op.pads[1:3] + op.pads[4:], steps[1:])
    flat = g.add(planes, g.reshape(x, n, c * depth, *plane))
    plane = list(flat.type.dims[2:])
    lines = MaxPool((op.kernel[0], 1), (op.strides[0], 1), (before, 0, after, 0), (steps[0], 1))
    pooled = g.add(lines, g.reshape(flat, n, c, depth, math.prod(plane)))
    return g.reshape(pooled, n, c, pooled.type.dims[2], *plane)


@gradient(MaxPool)
def max_pool(g: Scope, dy: Value) -> Value:
    """dy to the largest element of each window, of equal ones the first (as PyTorch has it)."""
    op, x = g.op(MaxPool), g.x()
    n, c, *image = x.type.dims
    window = WindowGeometry(op.kernel, op.strides, op.pads, op.dilations or (1,) * len(op.kernel))
    taps, places = math.prod(op.kernel), math.prod(dy.type.dims[2:])
    columns = g.reshape(columns_of(g, x, window, LOWEST), n * c, taps, places)
    share = _to_first(g, columns, g.reshape(dy, n * c, 1, places))
    kernel, strides, pads, dilations = flattened(window)
    height, width = (1, *image)[-2:]
    back = Col2Im(kernel, strides, pads, dilations, (height, width))
    return g.reshape(g.add(back, g.reshape(share, n, c * taps, places)), *x.type.dims)


@gradient(GlobalMaxPool)
def global_max_pool(g: Scope, dy: Value) -> Value:
    """dy to the largest element of each channel, of equal ones the first."""
    n, c, *image = g.x().type.dims
    lines = g.reshape(g.x(), n * c, math.prod(image), 1)
    return g.reshape(_to_first(g, lines, g.reshape(dy, n * c, 1, 1)), n, c, *image)


@gradient(AveragePool)
def average_pool(g: Scope, dy: Value) -> Value:
    """dy over the number of elements, added up over the windows that an element lies in."""
    op, x = g.op(AveragePool), g.x()
    channels, *image = x.type.dims[1:]
    ones = (1,) * len(op.kernel)
    if op.count_include_pad:
        share = g.times(dy, 1 / math.prod(op.kernel))
    else:
        whole = np.ones((1, 1, *image), np.float32)
        means = AveragePool(op.kernel, op.strides, op.pads, count_include_pad=True)
        part = means.reference(whole)[0] * math.prod(op.kernel)
        share = g.over(dy, g.constant(part))
    taps = g.constant(np.ones((channels, 1, *op.kernel), np.float32))
    window = WindowGeometry(op.kernel, op.strides, op.pads, ones)
    return spread(g, share, taps, window, channels, tuple(image))


@decomposition(GlobalAveragePool)
def global_average_pool(g: Scope) -> Value:
    """The mean over the spatial axes"""
    return g.add(ReduceMean(tuple(range(2, g.x().type.rank))), g.x())


def _to_first(g: Scope, x: Value, dy: Value) -> Value:
    """dy [n, 1, m] at the first largest element along axis 1 of x, 0 elsewhere."""
    best = g.add(ArgMax(axis=1), x)
    numbers = g.constant(np.arange(x.type.dims[1], dtype=np.int32).reshape(1, -1, 1))
    return g.add(Where(), g.add(Equal(), best, numbers), dy, g.scalar(0.0, dy.type.dtype))
