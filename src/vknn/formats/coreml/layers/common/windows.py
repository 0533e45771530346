"""Windows over the last axes of a blob: kernel sizes, strides and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vknn.formats.coreml.context import Context
from vknn.formats.windows import Pads
from vknn.graph import Value

#: The largest window, stride or padding; real networks have smaller ones.
_MOST = 1 << 24


def sizes(
    c: Context, values: Sequence[int], default: Sequence[int], what: str, least: int = 1
) -> tuple[int, ...]:
    """One number per axis, or ``default`` without any in the file; at least ``least``."""
    found = tuple(int(v) for v in values) or tuple(default)
    good = len(found) == len(default) and all(least <= v <= _MOST for v in found)
    c.require(good, f"{what} is {list(found)}, not {len(default)} numbers from {least} on")
    return found


def read_border_amounts(c: Context, amounts: Any, what: str = "paddingAmounts") -> Pads:
    """A BorderAmounts as ((top, bottom), (left, right)); all 0 without entries."""
    edges = tuple((int(e.startEdgeSize), int(e.endEdgeSize)) for e in amounts.borderAmounts)
    edges = edges or ((0, 0), (0, 0))
    good = len(edges) == 2 and max(max(edge) for edge in edges) <= _MOST
    c.require(good, f"{what} are {edges}, not those of two axes")
    return edges


def is_top_left(message: Any) -> bool:
    """Whether a SamePadding has the larger half at the begin."""
    return bool(message.asymmetryMode == type(message).TOP_LEFT_HEAVY)


def padded_shape(x: Value, padding: Pads) -> tuple[int, ...]:
    """The shape of ``x`` with its last axes padded."""
    dims = x.type.dims
    inner = zip(dims[len(dims) - len(padding) :], padding, strict=True)
    return (*dims[: len(dims) - len(padding)], *(n + b + e for n, (b, e) in inner))
