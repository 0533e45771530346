"""Rotary embeddings."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.attention import RotaryEmbedding
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Concat, Expand, Slice


@operator("RotaryEmbedding", 23, inputs=(3, 4))
def rotary_embedding(c: Context) -> Value:
    """Pairs of each head's elements turned by the angles of their places"""
    cos, sin = c.value(1), c.value(2)
    if c.optional(3) is not None:
        cos, sin = tables_at(c, 3, cos, sin)
    x, heads = c.x, 0
    if x.type.rank == 3:
        heads = c.int("num_heads")
    width = c.int("rotary_embedding_dim", 0)
    return rotated(c, x, cos, sin, heads, width, c.flag("interleaved"))


def tables_at(c: Context, number: int, cos: Value, sin: Value) -> tuple[Value, Value]:
    """Rows [B, S, width / 2] of two tables at the places that an input [B, S] gives."""
    c.require(cos.type.rank == sin.type.rank == 2, f"has the tables {cos.type}, {sin.type}")
    places = c.indices(number, min(cos.type.dims[0], sin.type.dims[0]), from_end=False)
    return gathered(c, cos, places), gathered(c, sin, places)


def tables_from(
    c: Context, firsts: Value, batch: int, length: int, cos: Value, sin: Value
) -> tuple[Value, Value]:
    """Rows [B, S, width / 2] of two tables from the places ``firsts``, int32 [B] or [1], on."""
    rows, last = min(cos.type.dims[0], sin.type.dims[0]), firsts.constant
    good = last is None or last.size == 0 or 0 <= int(last.max()) < rows
    c.require(good, f"has tables of {rows} places, and needs others")
    steps = c.constant(np.arange(length, dtype=np.int32)[None], "steps")
    places = c.add(ew.Add(), c.reshape(firsts, (firsts.type.size, 1)), steps)
    places = c.add(Expand((batch, length)), places)
    return gathered(c, cos, places), gathered(c, sin, places)


def gathered(c: Context, table: Value, places: Value) -> Value:
    """Rows of a table at int32 places."""
    return c.add(Gather(0, from_end=False), table, places)


def rotated(
    c: Context, x: Value, cos: Value, sin: Value, heads: int, width: int, interleaved: bool
) -> Value:
    """Heads with the first ``width`` elements of each turned; 0: all of them.

    x [B, heads, S, D], or with ``heads`` [B, S, heads * D]; cos and sin [B, S, width / 2], where a
    batch of 1 serves all.
    """
    c.require(x.type.rank == (3 if heads else 4), f"turns no {x.type}")
    dims = x.type.dims
    if heads:
        batch, length = dims[:2]
        c.require(heads > 0 and dims[2] % heads == 0, f"{heads} heads do not divide {x.type}")
        depth = dims[2] // heads
    else:
        batch, length, depth = dims[0], dims[2], dims[3]
    width = width or depth
    c.require(0 < width <= depth and width % 2 == 0, f"turns {width} of {depth} elements")
    wanted = (batch, length, width // 2)
    for table in (cos, sin):
        good = table.type.rank == 3 and table.type.dims[1:] == wanted[1:]
        good = good and table.type.dims[0] in (1, batch)
        c.require(good, f"has the table {table.type}, not {list(wanted)}")
    if heads:  # each place is an entry of the batch, so that no axes have to change places
        if cos.type.dims[0] != batch:
            cos, sin = (c.add(Concat(0), *[t] * batch) for t in (cos, sin))
        cos, sin = (c.reshape(t, (batch * length, 1, width // 2)) for t in (cos, sin))
        x = c.reshape(x, (batch * length, heads, 1, depth))
    elif cos.type.dims[0] == 1:
        cos, sin = (c.reshape(t, wanted[1:]) for t in (cos, sin))
    part = x if width == depth else c.add(Slice((0,), (width,), (3,)), x)
    found = c.add(
        RotaryEmbedding(interleaved), part, *(c.cast(t, x.type.dtype) for t in (cos, sin))
    )
    if width < depth:
        found = c.add(Concat(3), found, c.add(Slice((width,), (depth,), (3,)), x))
    return c.reshape(found, dims)
