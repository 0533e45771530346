"""Rotary embeddings of com.microsoft."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.rotary import gathered, rotated, tables_at
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew


@operator("RotaryEmbedding", 1, inputs=4, domain=MICROSOFT)
def rotary_embedding(c: Context) -> Value:
    """Pairs of each head's elements turned by the angles of their places"""
    x, places, cos, sin = (c.value(number) for number in range(4))
    c.require(cos.type.rank == sin.type.rank == 2, f"has the tables {cos.type}, {sin.type}")
    c.require(x.type.rank in (3, 4), f"turns no {x.type}")
    width, heads = c.int("rotary_embedding_dim", 0), c.int("num_heads", 0)
    c.require(heads > 0 or not width, "turns a part of each of an unknown number of heads")
    length = x.type.dims[1 if x.type.rank == 3 else 2]
    if x.type.rank == 4:
        heads = 0
    elif heads == 0:
        depth = 2 * cos.type.dims[1]
        c.require(depth > 0 and x.type.dims[2] % depth == 0, f"has the table {cos.type}")
        heads = x.type.dims[2] // depth
    shaped(c, 1, "position_ids", (1,), (x.type.dims[0], length))
    if places.type.rank == 1:
        cos, sin = _from_offset(c, cos, sin, length)
    else:
        cos, sin = tables_at(c, 1, cos, sin)
    return rotated(c, x, cos, sin, heads, width or 2 * cos.type.dims[2], c.flag("interleaved"))


def _from_offset(c: Context, cos: Value, sin: Value, length: int) -> tuple[Value, Value]:
    """Rows [1, S, width / 2] of both tables from the place on that the input 1 gives."""
    most = min(cos.type.dims[0], sin.type.dims[0]) - length
    c.require(most >= 0, f"has tables of fewer than {length} places")
    first = c.indices(1, most + 1, from_end=False)
    steps = c.constant(np.arange(length, dtype=np.int32)[None], "steps")
    places = c.add(ew.Add(), c.reshape(first, (1, 1)), steps)
    return gathered(c, cos, places), gathered(c, sin, places)


@operator("GemmaRotaryEmbedding", 1, inputs=5, outputs=2, domain=MICROSOFT)
def gemma_rotary_embedding(c: Context) -> list[Value]:
    """x cos(angles) + x_rotated sin(angles) of queries and of keys"""
    angles, q, q_turned, k, k_turned = (c.value(number) for number in range(5))
    shaped(c, 0, "emb", (None, None, None))
    batch, length, width = angles.type.dims
    angles = c.cast(c.reshape(angles, (batch, 1, length, width)), DType.FLOAT32)
    cos, sin = (c.cast(c.add(op, angles), q.type.dtype) for op in (ew.Cos(), ew.Sin()))
    return [
        c.add(ew.Add(), c.add(ew.Mul(), x, cos), c.add(ew.Mul(), turned, sin))
        for x, turned in ((q, q_turned), (k, k_turned))
    ]
