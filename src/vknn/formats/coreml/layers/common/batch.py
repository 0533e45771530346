"""Batch axes: leading axes merged to one, and restored."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import Convert, Result
from vknn.formats.layer_context import unfold
from vknn.graph import Value


def merge_batch(
    c: Context, x: Value, rank: int, least: int | None = None
) -> tuple[Value, tuple[int, ...]]:
    """``x`` as [N, ...] of ``rank``, with all leading axes merged to N; and their sizes.

    ``least``: the smallest rank that ``x`` may have, by default ``rank``.
    """
    least = rank if least is None else least
    c.require(x.type.rank >= least, f"its input {x.type} has not rank {least} or more")
    inner = x.type.dims[x.type.rank - rank + 1 :]
    lead = x.type.dims[: x.type.rank - rank + 1]
    return c.reshape(x, (math.prod(lead), *inner)), lead


def restore_batch(c: Context, y: Value, lead: Sequence[int]) -> Value:
    """The inverse of :func:`merge_batch`: the first axis as those of sizes ``lead``."""
    return c.reshape(y, (*lead, *y.type.dims[1:]))


def merges_batch_axes(convert: Convert) -> Convert:
    """Decorator of converters for which all axes before [C, H, W] are batch axes.

    Inputs of rank 5 are given to the converter as [N, C, H, W]. In networks of [Seq, Batch, C, H,
    W] images then stay [N, C, H, W] from layer to layer: the reshape after one layer and that
    before the next cancel.
    """

    @functools.wraps(convert)
    def folded(c: Context) -> Result:
        leads = {v.type.dims[:-3] for v in c.inputs if math.prod(v.type.dims[:-3]) != 1}
        ranks = {v.type.rank for v in c.inputs}
        if ranks != {5} or len(leads) > 1:
            return convert(c)
        inputs = [merge_batch(c, v, 4)[0] for v in c.inputs]
        lead = next(iter(leads), c.x.type.dims[:-3])
        results = unfold(convert(dataclasses.replace(c, inputs=inputs)))
        return [restore_batch(c, result, lead) for result in results]

    return folded
