"""Rows of a tensor along one axis, for softmax, cumulative sums, ArgMax and TopK."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kit.emitter import BoundBuffer, Ref, read1, read4
from vknn.lowering.kit.layouts import Layout, allows, ceil_div


@dataclass(frozen=True)
class AxisRows:
    """``rows`` rows of ``count`` items that are ``inner`` items apart.

    ``wide``: an item is a vec4. ``across``: a row runs through the lanes of its vec4s (where not
    ``wide``, the shader gathers them from scalars); otherwise an item holds elements of four
    neighbouring rows, or one of one row where not ``wide``.
    """

    rows: int
    count: int
    inner: int
    wide: bool
    across: bool = False

    def read(self, x: Ref) -> BoundBuffer:
        """The binding of a buffer of the rows' items."""
        return read4(x) if self.wide else read1(x)

    def push(self) -> dict[str, int]:
        """Push constants by name."""
        return {"rows": self.rows, "count": self.count, "inner": self.inner}


def side_by_side(x: TensorType, axis: int, layout: Layout) -> AxisRows | None:
    """The rows of ``x`` along an axis, four of them in a vec4 or each by itself.

    None along the channels of C4, where the lanes of a vec4 belong to one row.
    """
    if not allows(x, layout) or (layout is Layout.C4 and axis == 1):
        return None
    outer, size, inner = _around(x, axis, layout)
    if layout is Layout.C4:
        return AxisRows(outer * inner, size, inner, True)
    if inner % 4 == 0:
        return AxisRows(outer * inner // 4, size, inner // 4, True)
    return AxisRows(outer * inner, size, inner, False)


def along_lanes(x: TensorType, axis: int, layout: Layout) -> AxisRows | None:
    """The rows of ``x`` along an axis as vec4s of four neighbours of one row.

    None along other axes of C4 than the channels.
    """
    if not allows(x, layout) or (layout is Layout.C4 and axis != 1):
        return None
    outer, size, inner = _around(x, axis, layout)
    if layout is Layout.C4:
        return AxisRows(outer * inner, size, inner, True, across=True)
    whole = inner == 1 and size % 4 == 0
    return AxisRows(outer * inner, ceil_div(size, 4), inner, whole, across=True)


def _around(x: TensorType, axis: int, layout: Layout) -> tuple[int, int, int]:
    """Product of the sizes before an axis, its size, product of those after it; C4's in vec4s."""
    sizes = list(x.dims)
    if layout is Layout.C4:
        sizes[1] = ceil_div(sizes[1], 4)
    return math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
