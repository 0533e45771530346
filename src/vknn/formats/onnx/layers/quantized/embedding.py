"""Embeddings of words with tables of 8 bits."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.quantization import dequantized
from vknn.formats.onnx.layers.normalization import layer_normalized
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Expand
from vknn.ops.reduction import ReduceSum


@operator("QEmbedLayerNormalization", 1, inputs=18, outputs=(1, 2), domain=MICROSOFT)
def quantized_embeddings(c: Context) -> tuple[Value, ...]:
    """The sum of word, position and segment embeddings of 8 bits, normalised; words by row"""
    ids = c.x
    c.require(ids.type.rank == 2, f"takes words [batch, length], not {ids.type}")
    batch, length = ids.type.dims
    total = c.add(ew.Add(), _rows(c, 0, 2, 8, 13), _positions(c, length))
    if c.optional(1) is not None:
        total = c.add(ew.Add(), total, _rows(c, 1, 4, 10, 15))
    gamma = dequantized(c, c.value(5), c.value(11), c.value(16))
    beta = dequantized(c, c.value(6), c.value(12), c.value(17))
    found = layer_normalized(c, total, 2, c.float("epsilon", 1e-12), gamma, beta)
    mask = c.optional(7)
    if mask is None:
        count = c.add(Expand((batch,)), c.scalar(0, DType.INT32))
    else:
        c.require(mask.type.dims == (batch, length), f"has the mask {mask.type}")
        count = c.add(ReduceSum((1,), False), c.cast(mask, DType.INT32))
    return found, count


def _rows(c: Context, ids: int, table: int, scale: int, zero: int) -> Value:
    """Rows of a table by the indices of an input, dequantized."""
    given = c.value(table)
    c.require(given.type.rank == 2, f"has the embeddings {given.type}")
    places = c.indices(ids, given.type.dims[0], from_end=False)
    return dequantized(c, c.add(Gather(0), given, places), c.value(scale), c.value(zero))


def _positions(c: Context, length: int) -> Value:
    """The first rows of the table of positions."""
    table = c.value(3)
    fits = table.type.rank == 2 and table.type.dims[0] >= length
    c.require(fits, f"has the positions {table.type} for {length} words")
    places = c.constant(np.arange(length, dtype=np.int32), "positions")
    return dequantized(c, c.add(Gather(0), table, places), c.value(9), c.value(14))
