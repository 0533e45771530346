"""Shapes of the operands and results of FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.graph import Value
from vknn.ops.movement.shape import Slice

_MAX_RANK = 5


def rows(c: Context, x: Value, depth: int) -> Value:
    """``x`` as a matrix [rows, ``depth``]; elements that do not fill the last row are dropped."""
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
    """Shape of the output: all leading axes with ``keep_num_dims``, otherwise a matrix."""
    if c.options["keep_num_dims"]:
        fits = x.type.rank > 0 and x.type.dims[-1] == depth
        c.require(fits, f"keeps the axes of {x.type} with rows of {depth}")
        return (*x.type.dims[:-1], units)
    return (x.type.size // depth if depth else math.prod(x.type.dims[:-1]), units)


def zero_depth_output(c: Context, units: int) -> Value:
    """Output for rows without elements: zeros, whatever the bias and the activation are."""
    shape = fully_connected_shape(c, c.x, units, 0)
    return c.constant(np.zeros(shape, c.target().dtype.numpy), "zeros")


def check_matrices(c: Context) -> None:
    """Check: Malformed for operands of BATCH_MATMUL of ranks that its kernels do not take."""
    for value in (c.x, c.value(1)):
        c.require(2 <= value.type.rank <= _MAX_RANK, f"multiplies {value.type}")
