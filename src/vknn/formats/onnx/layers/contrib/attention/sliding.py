"""Caches that hold the last entries of a sequence only."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.cache import picked
from vknn.formats.onnx.layers.attention.masks import Mask
from vknn.formats.onnx.layers.contrib.attention.caches import Lengths
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Greater, Less, LessOrEqual, Where
from vknn.ops.movement.shape import Concat, Expand


class Sliding:
    """A cache of ``room`` entries of which at least the last ``window`` of a sequence are there.

    They stand at its beginning in order; how many there are follows from the sequence's length
    alone (:meth:`_held`), so that it does not matter in which steps it grew.
    """

    def __init__(self, c: Context, past: Value, queries: int, lengths: Lengths) -> None:
        self.room, self.window = past.type.dims[2], c.int("local_window_size", -1)
        good = 0 < self.window <= self.room
        c.require(good, f"has a window of {self.window} in a cache of {self.room}")
        batch = past.type.dims[0]
        self.queries, self.total = queries, lengths.total
        self._ends, self._firsts = (
            c.reshape(x, (batch, 1)) for x in (lengths.ends, lengths.firsts)
        )
        self._old, self._new = (self._held(c, x) for x in (self._firsts, self._ends))

    def _held(self, c: Context, total: Value) -> Value:
        """Number of entries that are there of sequences of so many: int32 [B, 1]."""
        step = self.room - self.window + 1
        over = c.add(ew.Sub(), total, c.scalar(self.room, DType.INT32))
        raised = c.add(ew.Add(), over, c.scalar(step - 1, DType.INT32))
        times = c.add(ew.FloorDiv(), raised, c.scalar(step, DType.INT32))
        times = c.add(ew.Max(), times, c.scalar(0, DType.INT32))
        return c.add(ew.Sub(), total, c.add(ew.Mul(), times, c.scalar(step, DType.INT32)))

    def grown(self, c: Context, past: Value, new: Value) -> tuple[Value, Value]:
        """The cache after the step, and all keys that its queries may see: old ones, new ones."""
        keys = c.add(Concat(2), past, new)
        own = c.constant(np.arange(self.room, dtype=np.int32)[None], "places")
        # Places in the sequence; those of the old entries begin where their last one ends.
        begin = c.add(ew.Sub(), self._ends, self._new)
        absolute = c.add(ew.Add(), own, begin)
        of_old = c.add(ew.Sub(), absolute, c.add(ew.Sub(), self._firsts, self._old))
        of_new = c.add(ew.Sub(), absolute, self._firsts)
        of_new = c.add(ew.Add(), of_new, c.scalar(self.room, DType.INT32))
        is_old = c.add(Less(), absolute, self._firsts)
        places = c.add(Where(), is_old, of_old, of_new)
        found = picked(c, keys, places, 2)
        counts = c.add(Less(), own, self._new)
        counts = c.reshape(counts, (past.type.dims[0], 1, self.room, 1))
        return c.add(
            Where(), counts, found, c.constant(np.zeros((), found.type.dtype.numpy), "zero")
        ), keys

    def mask(self, c: Context, mask: Mask, bias: Value | None) -> None:
        """Restriction to the window of each query; ``bias`` [.., total] is added at its places."""
        batch = self._ends.type.dims[0]
        row = c.constant(np.arange(self.room, dtype=np.int32)[None], "places")
        begin = c.add(ew.Sub(), self._firsts, self._old)
        steps = c.constant(np.arange(self.queries, dtype=np.int32)[None], "steps")
        new = c.add(ew.Add(), steps, self._firsts)
        old = c.add(ew.Add(), row, begin)
        valid = c.add(Concat(1), c.add(Less(), row, self._old), c.add(Less(), new, self._ends))
        absolute = c.add(Concat(1), old, new)
        count = self.room + self.queries
        mask.allow(c.reshape(valid, (batch, 1, 1, count)))
        keys = c.reshape(absolute, (batch, 1, 1, count))
        places = c.reshape(new, (batch, 1, self.queries, 1))
        mask.allow(c.add(LessOrEqual(), keys, places))
        first = c.add(ew.Sub(), places, c.scalar(self.window, DType.INT32))
        mask.allow(c.add(Greater(), keys, first))
        if bias is not None:
            mask.add(self._bias_at(c, bias, absolute))

    def _bias_at(self, c: Context, bias: Value, absolute: Value) -> Value:
        """The columns of a bias at places in the sequence, others for each of the batch."""
        batch, dims = absolute.type.dims[0], bias.type.dims
        c.require(len(dims) == 4 and dims[3] == self.total, f"has the bias {bias.type}")
        wide = c.add(Expand((batch, *dims[1:])), c.cast(bias, DType.FLOAT32))
        return picked(c, wide, absolute, 3)
