"""Sampling of strings, complex and long numbers, by what is done to floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.graph import DType, Value
from vknn.ops.complex_parts import ComplexOf, ImaginaryPart, RealPart
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Concat


def by_parts(c: Context, x: Value, function: Callable[[Value], Value]) -> Value:
    """A linear function of complex numbers: of their real parts and of their imaginary ones."""
    real, imaginary = (function(c.add(part, x)) for part in (RealPart(), ImaginaryPart()))
    return c.add(ComplexOf(), real, imaginary)


def by_places(c: Context, x: Value, function: Callable[[Value], Value]) -> Value:
    """A function of real numbers that picks elements, or 0, for what floats do not hold.

    It is computed of the elements' numbers, from 1 on, in float64. Of strings 0 is the empty one.
    """
    numbers = np.arange(1, x.type.size + 1, dtype=np.float64).reshape(x.type.dims)
    picked = c.cast(function(c.constant(numbers, "numbers")), DType.INT32)
    zero = b"" if x.type.dtype is DType.STRING else 0
    nothing = c.constant(np.array([zero], x.type.dtype.numpy), "nothing")
    elements = c.add(Concat(0), nothing, c.reshape(x, (x.type.size,)))
    return c.add(Gather(0, from_end=False), elements, picked)
