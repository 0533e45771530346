"""Reductions of windows over any axes, with a first value that takes part in each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.layer_context import LayerContext
from vknn.formats.padding import padded, padded_shape
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise import logic
from vknn.ops.pooling.reduce_window import ReduceWindow, neutral

#: Elements that pads and holes may make of an operand in any case, and how many times its own more:
#: a few bytes of a file must not ask for gigabytes.
MANY, MOST_GROWTH = 1 << 26, 1 << 10
#: Functions of ReduceWindow as ops of two operands.
_JOINS: dict[str, Op] = {"add": ew.Add(), "mul": ew.Mul(), "max": ew.Max(), "min": ew.Min()}
_JOINS_OF_BOOL: dict[str, Op] = {"max": logic.Or(), "min": logic.And()}


@dataclass(frozen=True)
class AxisWindow:
    """Windows along one axis, with the attributes of ReduceWindow."""

    size: int
    stride: int = 1
    pads: tuple[int, int] = (0, 0)
    base_dilation: int = 1
    dilation: int = 1

    @property
    def is_each(self) -> bool:
        """True where each element is a window."""
        return self.size == self.stride == self.base_dilation == 1 and self.pads == (0, 0)

    def op(self, function: str, axis: int) -> ReduceWindow:
        """The op that joins these windows along an axis."""
        return ReduceWindow(
            function, axis, self.size, self.stride, self.pads, self.base_dilation, self.dilation
        )

    def count(self, size: int) -> int:
        """Windows along an axis of ``size`` elements. Raises ShapeError for absurd ones."""
        return self.op("add", 0).count(size)


def joined(c: LayerContext, function: str, a: Value, b: Value) -> Value:
    """Two values of one type joined by a function of ReduceWindow; they broadcast."""
    joins = _JOINS_OF_BOOL if a.type.dtype is DType.BOOL else _JOINS
    return c.add(joins[function], a, b)


def is_neutral(function: str, init: Value) -> bool:
    """True where ``init`` is a constant that ``function`` joins without a change."""
    known = init.constant
    return known is not None and bool((known == neutral(function, init.type.dtype)).all())


def reduced_windows(
    c: LayerContext, x: Value, function: str, init: Value, windows: Sequence[AxisWindow]
) -> Value:
    """Windows of ``x``, one entry of ``windows`` an axis, joined by a function of ReduceWindow.

    ``init``, a scalar of the type of ``x``, is what pads and holes hold, and takes part once in
    each window.
    """
    plain = is_neutral(function, init)
    if not plain and function in ("add", "mul"):
        x, windows = filled(c, x, init, windows)
    for axis, window in enumerate(windows):
        if not window.is_each:
            x = c.add(window.op(function, axis), x)
    return x if plain else joined(c, function, x, init)


def filled(
    c: LayerContext, x: Value, init: Value, windows: Sequence[AxisWindow]
) -> tuple[Value, list[AxisWindow]]:
    """``x`` with pads and holes filled with ``init``, and the windows without them."""
    low, high = ([w.pads[end] for w in windows] for end in (0, 1))
    between = [w.base_dilation - 1 for w in windows]
    size = math.prod(padded_shape(x.type.dims, low, high, between))
    c.require(size < MANY or size < MOST_GROWTH * x.type.size,
              f"makes {size} elements of {x.type} with pads and holes")  # fmt: skip
    x = padded(c, x, low, high, between, init)
    return x, [AxisWindow(w.size, w.stride, dilation=w.dilation) for w in windows]


def window_places(count: int, window: AxisWindow) -> np.ndarray:
    """Elements of ``count`` windows without pads and holes along an axis: int32 [count, size]."""
    begins, taps = np.arange(count) * window.stride, np.arange(window.size) * window.dilation
    return (begins[:, None] + taps).astype(np.int32)
