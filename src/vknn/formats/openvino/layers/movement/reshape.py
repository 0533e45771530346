"""Reshape and Flatten."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value


@layer("Reshape", inputs=(1, 2))
def reshape(c: Context) -> Value:
    """The input in another shape: the second input, the attribute of older files, or the output
    port's.

    Caffe's attributes axis and num_axes mean that ``dim`` is not the whole shape: the port decides
    then.
    """
    shape = _stated(c)
    if shape is None:
        return c.reshape(c.x, c.declared())
    return c.reshape(c.x, filled(c, shape, c.x.type.dims))


def _stated(c: Context) -> Sequence[int] | None:
    if len(c.inputs) == 2:
        if c.value(1).constant is None and c.is_as_declared:
            return None
        return c.input_ints(1, "the shape")
    if c.int("axis", 0) != 0 or c.int("num_axes", -1) != -1:
        return None
    found: Sequence[int] | None = c.ints("dim", None)
    return found or None


def filled(c: Context, shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with the input's sizes in place of 0, and with one -1 computed."""
    known = []
    for place, size in enumerate(shape):
        c.require(size >= -1, f"{list(shape)} is no shape")
        c.require(size != 0 or place < len(dims), f"copies axis {place}, which is not there")
        known.append(dims[place] if size == 0 else size)
    c.require(known.count(-1) <= 1, f"{list(shape)} leaves more than one size open")
    count, rest = math.prod(dims), math.prod(d for d in known if d != -1)
    fits = rest > 0 and count % rest == 0 if -1 in known else rest == count
    c.require(fits, f"{list(dims)} does not fill {list(shape)}")
    return tuple(count // rest if d == -1 else d for d in known)


@layer("Flatten")
def flatten(c: Context) -> Value:
    """Axes from ``axis`` to ``end_axis`` merged; without both, as the output port states."""
    dims, rank = c.x.type.dims, c.rank
    if not (c.has_attribute("axis") or c.has_attribute("end_axis")):
        if c.is_as_declared:
            return c.reshape(c.x, c.declared())
        first, last = _merged(c, c.layer.inputs[0].dims, c.port().dims)
    else:
        first = c.axis(c.int("axis", 0), max(rank, 1))
        last = c.axis(c.int("end_axis", -1), max(rank, 1))
    c.require(first <= last, f"axis {first} is behind end_axis {last}")
    return c.reshape(c.x, (*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :]))


def _merged(c: Context, dims: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, int]:
    """The axes of ``dims`` whose merging gives ``result``."""
    count = len(dims) - len(result) + 1
    for first in range(len(dims) - count, -1, -1) if count > 0 else ():
        rest = (*dims[:first], math.prod(dims[first : first + count]), *dims[first + count :])
        if rest == result:
            return first, first + count - 1
    return c.fail(f"{list(result)} is not {list(dims)} with axes merged")
