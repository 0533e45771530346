"""SparseAttention: queries that see blocks of keys, by a table."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.heads import joined_heads, split_heads
from vknn.formats.onnx.layers.attention.rotary import rotated, tables_from
from vknn.formats.onnx.layers.attention.scores import Scoring, attended
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.layers.contrib.attention.caches import (
    Lengths,
    cached,
    first_keys,
    lengths_from,
)
from vknn.formats.onnx.layers.contrib.attention.projected import sharing_inputs
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value


@operator("SparseAttention", 1, inputs=(9, 11), outputs=(1, 3), domain=MICROSOFT)
def sparse_attention(c: Context) -> list[Value]:
    """GroupQueryAttention with a table of which blocks of keys a block of queries sees"""
    heads, groups = c.int("num_heads"), c.int("kv_num_heads")
    c.require(groups > 0 and heads > 0 and heads % groups == 0, f"{heads} heads, {groups} of keys")
    q, k, v = sharing_inputs(c, heads, groups)
    lengths = _lengths(c, q.type.dims[1])
    for number, name in ((9, "cos_cache"), (10, "sin_cache")):
        shaped(c, number, name, (None, None))
    if c.flag("do_rotary"):
        (batch, queries), pairs = q.type.dims[:2], c.flag("rotary_interleaved")
        tables = tables_from(c, lengths.firsts, batch, queries, c.value(9), c.value(10))
        width = 2 * tables[0].type.dims[2]
        q, k = (rotated(c, x, *tables, n, width, pairs) for x, n in ((q, heads), (k, groups)))
    q, k, v = (split_heads(c, x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    caches = [cached(c, c.value(n), x, lengths, False) for n, x in ((3, k), (4, v))]
    k, v = (first_keys(c, x, lengths.total) for x in caches)
    how = Scoring(float(c.float("scale", 0.0) or max(q.type.dims[3], 1) ** -0.5))
    bias = c.cast(_bias(c, heads, q.type.dims[2], lengths), q.type.dtype)
    return [joined_heads(c, attended(c, q, k, v, heads, groups, how, bias)), *caches]


def _lengths(c: Context, queries: int) -> Lengths:
    """The lengths of a step; the table of blocks is looked up now, so that all are numbers."""
    total, batch = int(c.number(7, "total_sequence_length")), c.x.type.dims[0]
    ends = np.asarray(c.ints(8, "key_total_sequence_lengths"), np.int32)
    good = ends.size == batch and total > 0 and (ends > 0).all() and (ends <= total).all()
    c.require(bool(good), f"has the lengths {ends.tolist()} of {total}")
    return lengths_from(c, total, c.constant(ends, "ends"), c.scalar(queries, DType.INT32))


def _bias(c: Context, heads: int, queries: int, lengths: Lengths) -> Value:
    """0 where a query sees a key, else -infinity: [B, heads, S, T]."""
    blocks, size = _blocks(c), c.int("sparse_block_size")
    layouts, rows, _ = blocks.shape
    c.require(size > 0 and heads % layouts == 0, f"has {layouts} tables for {heads} heads")
    c.require(lengths.total <= rows * size, f"has a table for {rows} blocks of {size}")
    firsts, ends = lengths.firsts.constant, lengths.ends.constant
    assert firsts is not None and ends is not None, "both are numbers"
    keys = np.arange(lengths.total)
    places = firsts[:, None] + np.arange(queries)
    row = np.minimum(places // size, rows - 1)
    seen = blocks[:, row][..., keys // size]  # [layouts, B, S, T]
    seen = seen & (keys <= places[..., None]) & (keys < ends[:, None, None])
    seen = np.tile(seen.swapaxes(0, 1), (1, heads // layouts, 1, 1))
    return c.constant(np.where(seen, 0.0, -np.inf).astype(np.float32), "bias")


def _blocks(c: Context) -> np.ndarray:
    """Blocks of keys that a block of queries sees: bool [layouts, blocks, blocks]."""
    begins, columns = c.data(5), c.data(6)
    good = begins.ndim == columns.ndim == 2 and len(begins) == len(columns) and len(begins) > 0
    c.require(good and begins.shape[1] > 1, "has no table of blocks")
    count = begins.shape[1] - 1
    ordered = (np.diff(begins, axis=1) >= 0).all() and begins.min() >= 0
    c.require(bool(ordered) and begins.max() <= columns.shape[1], "has a table out of order")
    found = np.zeros((len(begins), count, count), np.bool_)
    for layout, (begin, column) in enumerate(zip(begins, columns, strict=True)):
        for row in range(count):
            chosen = column[begin[row] : begin[row + 1]]
            c.require(bool(((chosen >= 0) & (chosen < count)).all()), "has blocks out of range")
            found[layout, row, chosen] = True
    return found
