"""Padding with places between the elements, too, and with pads below 0, which cut off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.layer_context import MAX_ELEMENTS, LayerContext
from vknn.graph import Value
from vknn.ops.elementwise.logic import Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Expand, Pad, Slice


@dataclass(frozen=True)
class _Axis:
    """Element i of ``size`` ones goes to place ``low`` + i * ``step`` of ``wanted`` ones."""

    size: int
    low: int
    step: int
    wanted: int

    @property
    def kept(self) -> range:
        """The elements that have a place."""
        first = max(0, -(self.low // self.step))
        return range(first, max(first, min(self.size, -((self.low - self.wanted) // self.step))))

    @property
    def begin(self) -> int:
        """Places before the first element that has one."""
        return self.low + self.kept.start * self.step

    @property
    def stays(self) -> bool:
        """True where each element is at its place already."""
        return self.wanted == self.size == len(self.kept) and not self.is_spread

    @property
    def is_spread(self) -> bool:
        """True where there are places between elements."""
        return self.step > 1 and len(self.kept) > 1


def padded_shape(
    dims: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> list[int]:
    """Sizes that :func:`padded` makes of ``dims``; below 0 where more is cut off than there is."""
    axes = zip(dims, low, high, interior, strict=True)
    return [max(d + (d - 1) * between, 0) + begin + end for d, begin, end, between in axes]


def padded(
    c: LayerContext,
    x: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    value: Value,
) -> Value:
    """``x`` with places of ``value``, a scalar of its type: ``interior`` ones between neighbours
    along each axis, then ``low`` before and ``high`` behind (below 0: places are cut off).

    Raises Malformed for cuts beyond the other end, ShapeError for absurd sizes.
    """
    dims = x.type.dims
    lengths = len(low) == len(high) == len(interior) == len(dims)
    c.require(lengths and min(interior, default=0) >= 0,
              f"pads {x.type} by {list(low)}, {list(high)}, {list(interior)}")  # fmt: skip
    wanted = padded_shape(dims, low, high, interior)
    c.require(min(wanted, default=0) >= 0, f"cuts {list(low)} and {list(high)} off {x.type}")
    if math.prod(d for d in wanted if d) >= MAX_ELEMENTS:
        raise ShapeError(f"its output {wanted} is absurdly large")
    axes = [_Axis(d, low[a], interior[a] + 1, wanted[a]) for a, d in enumerate(dims)]
    if 0 in wanted or not all(axis.kept for axis in axes):
        return c.add(Expand(tuple(wanted)), value)
    known = value.constant is not None
    at_once = [a for a, axis in enumerate(axes) if not axis.is_spread and known]
    x = _cut_and_padded(c, x, {a: axes[a] for a in at_once}, value)
    for number, axis in enumerate(axes):
        if number not in at_once and not axis.stays:
            x = _spread(c, x, number, axis, value)
    return x


def _cut_and_padded(c: LayerContext, x: Value, axes: Mapping[int, _Axis], value: Value) -> Value:
    """``x`` without what is cut off, and padded along these axes."""
    cut = {a: axis.kept for a, axis in axes.items() if len(axis.kept) < axis.size}
    if cut:
        starts, stops = tuple(k.start for k in cut.values()), tuple(k.stop for k in cut.values())
        x = c.add(Slice(starts, stops, tuple(cut)), x)
    rank = x.type.rank
    begins = [axes[a].begin if a in axes else 0 for a in range(rank)]
    sizes = [axes[a].wanted if a in axes else d for a, d in enumerate(x.type.dims)]
    ends = [sizes[a] - begins[a] - d for a, d in enumerate(x.type.dims)]
    if not any((*begins, *ends)):
        return x
    assert value.constant is not None
    return c.add(Pad((*begins, *ends), "constant", value.constant.reshape(-1)[0].item()), x)


def _spread(c: LayerContext, x: Value, number: int, axis: _Axis, value: Value) -> Value:
    """``x`` with the elements along axis ``number`` at their places."""
    sources = np.full(c.makeable(axis.wanted), -1, np.int32)
    sources[axis.begin :: axis.step][: len(axis.kept)] = axis.kept
    gathered = Gather(number, from_end=False, outside="zero")
    y = c.add(gathered, x, c.constant(sources, f"places{number}"))
    if value.constant is not None and not value.constant.any():
        return y
    shape = (axis.wanted, *[1] * (x.type.rank - number - 1))
    there = c.constant((sources >= 0).reshape(shape), f"there{number}")
    return c.add(Where(), there, y, value)
