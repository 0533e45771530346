"""Embeddings of words, places and segments."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.formats.onnx.layers.normalization import layer_normalized
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Equal
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Slice
from vknn.ops.reduction import ReduceSum


@operator("EmbedLayerNormalization", 1, inputs=(7, 9), outputs=(1, 3), domain=MICROSOFT)
def embed_layer_normalization(c: Context) -> list[Item]:
    """LayerNormalization of the sum of the embeddings of words, places and segments"""
    shaped(c, 0, "input_ids", (None, None))
    batch, length = c.x.type.dims
    words, places = c.value(2), c.value(3)
    shaped(c, 2, "word_embedding", (None, None))
    width = words.type.dims[1]
    for number, name, form in (
        (1, "segment_ids", (batch, length)), (3, "position_embedding", (None, width)),
        (4, "segment_embedding", (None, width)), (5, "gamma", (width,)), (6, "beta", (width,)),
        (7, "mask", (batch, length)), (8, "position_ids", ((1, batch), length)),
    ):  # fmt: skip
        shaped(c, number, name, form)
    c.require((c.optional(1) is None) == (c.optional(4) is None), "has a half of its segments")
    total = _rows(c, words, 0)
    if c.optional(8) is not None:
        total = c.add(ew.Add(), total, _rows(c, places, 8))
    else:
        c.require(places.type.dims[0] >= length, f"has places {places.type} for {length} words")
        total = c.add(ew.Add(), total, c.add(Slice((0,), (length,), (0,)), places))
    if c.optional(1) is not None:
        total = c.add(ew.Add(), total, _rows(c, c.value(4), 1))
    kind = total.type.dtype
    scale, bias = (c.cast(c.value(number), DType.FLOAT32) for number in (5, 6))
    epsilon = c.float("epsilon", 1e-12)
    found = layer_normalized(c, c.cast(total, DType.FLOAT32), 2, epsilon, scale, bias)
    return [c.cast(found, kind), mask_counts(c, c.optional(7), batch), total]


def _rows(c: Context, table: Value, number: int) -> Value:
    """The rows of a table at the indices of an input."""
    c.require(table.type.rank == 2, f"has the table {table.type}")
    return c.add(Gather(0, from_end=False), table, c.indices(number, table.type.dims[0], False))


def mask_counts(c: Context, mask: Value | None, batch: int) -> Value:
    """Number of ones that a mask has for each of the batch, int32; zeros without a mask."""
    if mask is None:
        return c.constant(np.zeros(batch, np.int32), "mask_index")
    ones = c.add(Equal(), mask, c.scalar(1, mask.type.dtype))
    return c.add(ReduceSum((1,), False), c.cast(ones, DType.INT32))
