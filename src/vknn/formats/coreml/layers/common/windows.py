"""Windows over the last axes of a blob: kernel sizes, strides and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vknn.formats.coreml.context import Context
from vknn.graph import Value

#: Beginning and end of each axis.
Borders = tuple[tuple[int, int], ...]

#: The largest window, stride or border; real networks have smaller ones.
_MOST = 1 << 24


def sizes(
    c: Context, values: Sequence[int], default: Sequence[int], what: str, least: int = 1
) -> tuple[int, ...]:
    """One number per axis, or ``default`` without any in the file; at least ``least``."""
    found = tuple(int(v) for v in values) or tuple(default)
    good = len(found) == len(default) and all(least <= v <= _MOST for v in found)
    c.require(good, f"{what} is {list(found)}, not {len(default)} numbers from {least} on")
    return found


def borders(c: Context, amounts: Any, what: str = "paddingAmounts") -> Borders:
    """A BorderAmounts as ((top, bottom), (left, right)); all 0 without entries."""
    edges = tuple((int(e.startEdgeSize), int(e.endEdgeSize)) for e in amounts.borderAmounts)
    edges = edges or ((0, 0), (0, 0))
    good = len(edges) == 2 and max(max(edge) for edge in edges) <= _MOST
    c.require(good, f"{what} are {edges}, not those of two axes")
    return edges


def halves(total: int, top_left: bool) -> tuple[int, int]:
    """A border's begin and end; the larger half is the end, or the begin for ``top_left``."""
    less = total // 2
    return (total - less, less) if top_left else (less, total - less)


def same_borders(
    spatial: Sequence[int], extents: Sequence[int], strides: Sequence[int], top_left: bool
) -> Borders:
    """Padding for ceil(size / stride) windows of ``extents`` (SAME)."""
    found = []
    for size, extent, stride in zip(spatial, extents, strides, strict=True):
        windows = -(-size // stride)
        found.append(halves(max(0, (windows - 1) * stride + extent - size), top_left))
    return tuple(found)


def is_top_left(message: Any) -> bool:
    """Whether a SamePadding has the larger half at the begin."""
    return bool(message.asymmetryMode == type(message).TOP_LEFT_HEAVY)


def pads(around: Borders) -> tuple[int, ...]:
    """Borders in the order of the ops: all begins, then all ends."""
    return (*(b for b, _ in around), *(e for _, e in around))


def padded(x: Value, around: Borders) -> tuple[int, ...]:
    """The shape of ``x`` with borders around its last axes."""
    dims = x.type.dims
    inner = zip(dims[len(dims) - len(around) :], around, strict=True)
    return (*dims[: len(dims) - len(around)], *(n + b + e for n, (b, e) in inner))
