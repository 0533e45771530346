"""Windows over the last axes of a blob: their sizes and what is around them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import Convert, Result
from vknn.formats.layer_context import unfold
from vknn.graph import Value

#: Beginning and end of each axis.
Borders = tuple[tuple[int, int], ...]

#: No window, step or border of a real network is larger.
_MOST = 1 << 24


def sizes(
    c: Context, values: Sequence[int], default: Sequence[int], what: str, least: int = 1
) -> tuple[int, ...]:
    """One number an axis, or ``default`` where the file has none of them."""
    found = tuple(int(v) for v in values) or tuple(default)
    good = len(found) == len(default) and all(least <= v <= _MOST for v in found)
    c.require(good, f"{what} is {list(found)}, not {len(default)} numbers from {least} on")
    return found


def borders(c: Context, amounts: Any, what: str = "paddingAmounts") -> Borders:
    """A BorderAmounts as ((top, bottom), (left, right)); without entries all are 0."""
    edges = tuple((int(e.startEdgeSize), int(e.endEdgeSize)) for e in amounts.borderAmounts)
    edges = edges or ((0, 0), (0, 0))
    good = len(edges) == 2 and max(max(edge) for edge in edges) <= _MOST
    c.require(good, f"{what} are {edges}, not those of two axes")
    return edges


def halves(total: int, top_left: bool) -> tuple[int, int]:
    """A border cut in two; what is odd goes to the end, or to the beginning where ``top_left``."""
    less = total // 2
    return (total - less, less) if top_left else (less, total - less)


def same_borders(
    spatial: Sequence[int], extents: Sequence[int], strides: Sequence[int], top_left: bool
) -> Borders:
    """Padding for ceil(size / stride) windows of ``extents``."""
    found = []
    for size, extent, stride in zip(spatial, extents, strides, strict=True):
        windows = -(-size // stride)
        found.append(halves(max(0, (windows - 1) * stride + extent - size), top_left))
    return tuple(found)


def is_top_left(message: Any) -> bool:
    """Whether a SamePadding puts what is odd at the beginning."""
    return bool(message.asymmetryMode == type(message).TOP_LEFT_HEAVY)


def pads(around: Borders) -> tuple[int, ...]:
    """Borders in the order of the ops: all beginnings, then all ends."""
    return (*(b for b, _ in around), *(e for _, e in around))


def padded(x: Value, around: Borders) -> tuple[int, ...]:
    """The shape of ``x`` with borders around its last axes."""
    dims = x.type.dims
    inner = zip(dims[len(dims) - len(around) :], around, strict=True)
    return (*dims[: len(dims) - len(around)], *(n + b + e for n, (b, e) in inner))


def batched(
    c: Context, x: Value, rank: int, least: int | None = None
) -> tuple[Value, tuple[int, ...]]:
    """``x`` as [N, ...] of ``rank``, all axes before the last ones made one; and what they were.

    ``least``: the smallest rank that ``x`` may have (``rank`` if left out).
    """
    least = rank if least is None else least
    c.require(x.type.rank >= least, f"its input {x.type} has not rank {least} or more")
    inner = x.type.dims[x.type.rank - rank + 1 :]
    lead = x.type.dims[: x.type.rank - rank + 1]
    return c.reshape(x, (math.prod(lead), *inner)), lead


def unbatched(c: Context, y: Value, lead: Sequence[int]) -> Value:
    """The opposite: the first axis becomes those that it was made of."""
    return c.reshape(y, (*lead, *y.type.dims[1:]))


def over_images(convert: Convert) -> Convert:
    """A converter to which all axes before [C, H, W] are batch, run on inputs of one such axis.

    In networks of [Seq, Batch, C, H, W] pictures then stay [N, C, H, W] from layer to layer: the
    shapes that one layer restores are those that the next one takes apart.
    """

    @functools.wraps(convert)
    def folded(c: Context) -> Result:
        leads = {v.type.dims[:-3] for v in c.inputs if math.prod(v.type.dims[:-3]) != 1}
        ranks = {v.type.rank for v in c.inputs}
        if ranks != {5} or len(leads) > 1:
            return convert(c)
        inputs = [batched(c, v, 4)[0] for v in c.inputs]
        lead = next(iter(leads), c.x.type.dims[:-3])
        results = unfold(convert(dataclasses.replace(c, inputs=inputs)))
        return [unbatched(c, result, lead) for result in results]

    return folded
