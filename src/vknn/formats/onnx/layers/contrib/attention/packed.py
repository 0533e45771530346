"""Attention of sequences of different lengths, one behind the other without padding."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.heads import joined_heads, split_heads
from vknn.formats.onnx.layers.attention.masks import Mask, before
from vknn.formats.onnx.layers.attention.scores import Scoring, attended
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.layers.contrib.attention.masks import add_bias
from vknn.formats.onnx.layers.contrib.attention.projected import parts
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Slice


@operator("PackedAttention", 1, inputs=(5, 6), domain=MICROSOFT)
def packed_attention(c: Context) -> Value:
    """Attention of each sequence to itself, all projections by one weight, without padding"""
    heads, x, weights = c.int("num_heads"), c.x, c.value(1)
    c.require(heads > 0 and x.type.rank == weights.type.rank == 2, f"takes no {x.type}")
    width = weights.type.dims[1]
    sizes = c.int_list("qkv_hidden_sizes", (width // 3,) * 3, 3)
    c.require(all(n > 0 and n % heads == 0 for n in sizes), f"parts into {list(sizes)}")
    shaped(c, 2, "bias", (width,))
    shaped(c, 3, "token_offset", (None, None))
    tokens, (batch, length) = x.type.dims[0], c.value(3).type.dims
    shaped(c, 4, "cumulative_sequence_length", (batch + 1,))
    offsets = c.reshape(c.indices(3, batch * length, from_end=False), (batch * length,))
    offsets = c.add(Slice((0,), (tokens,), (0,)), offsets)
    whole = c.add(MatMul(), x, weights, c.optional(2))
    zeros = c.constant(np.zeros((batch * length, width), x.type.dtype.numpy), "padding")
    placed = c.add(ScatterND(), zeros, c.reshape(offsets, (tokens, 1)), whole)
    q, k, v = parts(c, c.reshape(placed, (batch, length, width)), sizes)
    sums = c.cast(c.reshape(c.value(4), (batch + 1,)), DType.INT32)
    ends, begins = (c.add(Slice((n,), (n + batch,), (0,)), sums) for n in (1, 0))
    mask = Mask(c)
    mask.allow(before(c, c.add(ew.Sub(), ends, begins), length))
    add_bias(c, mask, 5)
    how = Scoring(float(c.float("scale", 0.0) or max(sizes[0] // heads, 1) ** -0.5))
    q, k, v = (split_heads(c, part, heads) for part in (q, k, v))
    found = attended(c, q, k, v, heads, heads, how, mask.bias(x.type.dtype))
    flat = c.reshape(joined_heads(c, found), (batch * length, sizes[2]))
    return c.add(Gather(0, from_end=False), flat, offsets)
