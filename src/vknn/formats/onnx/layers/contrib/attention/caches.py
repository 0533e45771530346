"""Caches of keys and values as GroupQueryAttention has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.cache import written
from vknn.formats.onnx.layers.attention.heads import extended
from vknn.formats.onnx.layers.attention.masks import before
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Where
from vknn.ops.movement.shape import Concat, Expand, Slice


@dataclass(frozen=True)
class Lengths:
    """Lengths of a step.

    ``total``: of the longest sequence; ``ends``: how many keys each of the batch has in the end,
    ``firsts``: how many of these the cache held before, ``filled``: how far the cache is written;
    all int32 [B].
    """

    total: int
    ends: Value
    firsts: Value
    filled: Value


def lengths_of(c: Context, queries: int) -> Lengths:
    """The lengths of a step of so many queries, as its inputs say."""
    batch = c.x.type.dims[0]
    total = int(c.number(6, "total_sequence_length"))
    c.require(total > 0, f"has the total_sequence_length {total}")
    given = c.value(5)
    c.require(given.type.size == batch, f"has {given.type} lengths for a batch of {batch}")
    given = c.reshape(c.cast(given, DType.INT32), (batch,))
    ends = c.add(ew.Add(), given, c.scalar(1, DType.INT32))
    new = c.scalar(queries, DType.INT32)
    if c.optional(16) is not None:
        new = c.reshape(c.cast(c.value(16), DType.INT32), (batch,))
    return lengths_from(c, total, ends, new)


def lengths_from(c: Context, total: int, ends: Value, new: Value) -> Lengths:
    """The lengths of a step after which there are ``ends`` keys, ``new`` of them new."""
    firsts = c.add(ew.Max(), c.add(ew.Sub(), ends, new), c.scalar(0, DType.INT32))
    return Lengths(total, ends, firsts, c.add(ew.Add(), firsts, new))


def cached(
    c: Context, past: Value | None, new: Value, lengths: Lengths, cleared: bool = True
) -> Value:
    """The cache [B, groups, its length, D] with the new entries behind those that count.

    ``cleared``: with zeros behind them, whatever was there.
    """
    batch, groups, queries, depth = new.type.dims
    room = lengths.total if past is None else max(past.type.dims[2], lengths.total)
    if past is None and room == queries:
        return new
    known = lengths.firsts.constant
    if past is not None:
        dims = (batch, groups, past.type.dims[2], depth)
        c.require(past.type.dims == dims, f"has the past {past.type}, not {list(dims)}")
        held = past.type.dims[2]
        if known is not None and (known == held).all() and held + queries == room:
            return extended(c, past, new)
    more = room - (0 if past is None else past.type.dims[2])
    zero = c.constant(np.zeros((), new.type.dtype.numpy), "zero")
    empty = None if more == 0 else c.add(Expand((batch, groups, more, depth)), zero)
    if past is None or empty is None:
        buffer = past if empty is None else empty
        assert buffer is not None, "a cache without a past has room"
    else:
        buffer = c.add(Concat(2), past, empty)
    c.require(buffer.type.dtype is new.type.dtype, f"has the past {buffer.type} for {new.type}")
    found = written(c, buffer, new, lengths.firsts, 2, ring=False)
    if not cleared:
        return found
    # What nobody wrote may be anything, NaN, too.
    counts = c.reshape(before(c, lengths.filled, room), (batch, 1, room, 1))
    return c.add(Where(), counts, found, zero)


def first_keys(c: Context, cache: Value, total: int) -> Value:
    """The part of a cache that the longest sequence fills."""
    if cache.type.dims[2] == total:
        return cache
    return c.add(Slice((0,), (total,), (2,)), cache)
