"""Masks of attention: which keys a query sees, and what is added to its scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.layer_context import LayerContext
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import And, Equal, GreaterOrEqual, Less, LessOrEqual, Where
from vknn.ops.reduction import ReduceMax

#: No sequence is longer.
_FAR = 1 << 30


class Mask:
    """A mask that is put together part by part; all parts broadcast to [B, heads, S, T].

    A key that one part forbids has the bias -infinity, whatever is added to it.
    """

    def __init__(self, c: LayerContext) -> None:
        self._c = c
        self._seen: Value | None = None
        self._added: Value | None = None

    def allow(self, seen: Value | np.ndarray) -> None:
        """Restriction to the keys where ``seen``, of bool, holds."""
        found = self._c.constant(seen, "seen") if isinstance(seen, np.ndarray) else seen
        self._seen = found if self._seen is None else self._c.add(And(), self._seen, found)

    def add(self, bias: Value) -> None:
        """Addition of floats to the scores."""
        self._added = bias if self._added is None else self._c.add(ew.Add(), self._added, bias)

    def bias(self, dtype: DType) -> Value | None:
        """Sum of all that is added to the scores; None where nothing is."""
        c, added = self._c, self._added
        added = None if added is None else c.cast(added, dtype)
        if self._seen is None:
            return added
        shown = c.scalar(0, dtype) if added is None else added
        return c.add(Where(), self._seen, shown, c.scalar(-np.inf, dtype))


def hidden_rows(c: LayerContext, bias: Value) -> Value:
    """Rows from which the bias hides all keys: bool, with a last axis of size 1."""
    most = c.add(ReduceMax((bias.type.rank - 1,), True), bias)
    return c.add(Equal(), most, c.scalar(-np.inf, bias.type.dtype))


@dataclass(frozen=True)
class Positions:
    """Places of queries and keys in a sequence.

    ``offset``: the place of the first query among the keys, one for all or int32 [B].
    """

    queries: int
    keys: int
    offset: int | Value = 0

    def causal(self, c: LayerContext, mask: Mask) -> None:
        """Restriction to keys that are not behind the query."""
        self.window(c, mask, -1, 0)

    def window(self, c: LayerContext, mask: Mask, left: int, right: int) -> None:
        """Restriction to at most ``left`` keys before a query's place and ``right`` behind it.

        Below 0: as many as there are.
        """
        c.makeable(self.queries * self.keys)
        steps = np.arange(self.keys, dtype=np.int32) - np.arange(self.queries)[:, None]
        steps = steps.astype(np.int32)
        bounds: list[tuple[Op, int]] = []
        if left >= 0:
            bounds.append((GreaterOrEqual(), -min(left, _FAR)))
        if right >= 0:
            bounds.append((LessOrEqual(), min(right, _FAR)))
        for op, bound in bounds:
            if isinstance(self.offset, int):
                (seen,) = op.reference(steps, np.asarray(bound + self.offset, np.int64))
                mask.allow(seen)
            else:
                offset = c.reshape(self.offset, (self.offset.type.size, 1, 1, 1))
                most = c.add(ew.Add(), offset, c.scalar(bound, DType.INT32))
                mask.allow(c.add(op, c.constant(steps, "steps"), most))


def before(c: LayerContext, lengths: Value, keys: int) -> Value:
    """Keys among the first of their batch entry: bool [B, 1, 1, keys].

    ``lengths``: how many those are, int32 [B].
    """
    places = c.constant(np.arange(keys, dtype=np.int32), "places")
    return c.add(Less(), places, c.reshape(lengths, (lengths.type.size, 1, 1, 1)))
