"""SDPA (scaled dot-product attention) and RotaryEmbed (rotary position embedding)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.attention.multi_head import cache_slots, masked_softmax
from vknn.formats.ncnn.layers.elementwise.arithmetic import scaled
from vknn.formats.ncnn.params import Params, param
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.attention import Attention, RotaryEmbedding
from vknn.ops.elementwise import Add
from vknn.ops.matmul import QuantizedMatMul
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import Softmax

#: Scores of int8 products up to this count as masked.
_LOWEST = float(np.finfo(np.float32).min)


@attributes
class SdpaParams(Params):
    """Parameters of SDPA."""

    attn_mask: int = param(5)
    scale: float = param(6, 0.0)
    kv_cache: int = param(7)
    int8_scale_term: int = param(18)


@layer("SDPA", params=SdpaParams, inputs=(3, 6), outputs=(1, 3), may_be_empty=cache_slots)
def sdpa(c: Context[SdpaParams]) -> Value | Sequence[Value]:
    """softmax(scale q k^T + mask) v of (head, sequence, width) blobs; heads may share k and v.

    Inputs: q, k, v, the mask, cached keys and values, which precede k and v. The result is 0 where
    the mask leaves no key.

    ncnn differs: its CPU path caches floats in panels as wide as the CPU's vectors, beyond the
    bounds of the blob; here, as in ncnn's Vulkan path, they are (head, sequence, width) blobs.
    ncnn differs: int8 products ignore columns of k beyond the width of q. A k that is cached gets
    the width of q: as many of its elements, in the order of memory, as fit.
    ncnn differs: int8 products round weights from a softmax whose sums depend on the CPU's vectors;
    a value within a few float digits of a half may be one step off.
    """
    p = c.params
    count = 3 + bool(p.attn_mask) + 2 * bool(p.kv_cache)
    c.require(len(c.inputs) == count, f"takes {count} inputs, not {len(c.inputs)}")
    tops = 3 if p.kv_cache else 1
    c.require(len(c.record.tops) == tops, f"has {tops} outputs, not {len(c.record.tops)}")
    q, k, v = (_with_heads(c, x) for x in c.inputs[:3])
    if p.kv_cache:
        k, v = _joined(c, k, c.inputs[-2], shape(q)[2]), _joined(c, v, c.inputs[-1], shape(v)[2])
    (heads, queries, width), (groups, keys, _) = shape(q), shape(k)
    cached = k
    if p.int8_scale_term and shape(k)[2] > width:
        k = c.add(Slice(starts=(0,), ends=(width,), axes=(3,)), k)
    c.require(heads % groups == 0, f"{groups} heads of k do not suit {heads} heads of q")
    good = shape(k)[2] == width and shape(v)[:2] == (groups, keys)
    c.require(good, f"q, k and v have the shapes {[list(shape(x)) for x in (q, k, v)]}")
    mask = _mask(c, heads, queries, keys) if p.attn_mask else None
    factor = p.scale or 1 / math.sqrt(width)
    if p.int8_scale_term:
        y = _int8(c, (q, k, v), mask, factor)
    else:
        op = Attention(num_heads=heads, scale=factor, kv_heads=groups, empty_zero=True)
        y = c.add(op, q, k, v, mask)
    return [y, cached, v] if p.kv_cache else y


def _with_heads(c: Context[SdpaParams], x: Value) -> Value:
    c.require(rank(x) in (2, 3), f"takes (head, sequence, width) blobs, not {list(shape(x))}")
    return c.reshape(x, (1, 1, *shape(x))) if rank(x) == 2 else x


def _joined(c: Context[SdpaParams], x: Value, past: Value, width: int) -> Value:
    """``past`` followed by ``x``, both with rows of ``width``."""
    if past.type.size == 0:
        return _cropped_rows(c, x, width)
    past = _with_heads(c, past)
    good = shape(past)[::2] == shape(x)[::2]
    c.require(good, f"{list(shape(past))} cannot be kept in front of {list(shape(x))}")
    return c.add(Concat(axis=2), _cropped_rows(c, past, width), _cropped_rows(c, x, width))


def _cropped_rows(c: Context[SdpaParams], x: Value, width: int) -> Value:
    """``x`` with rows of ``width``, the first elements of each head in the order of memory."""
    heads, rows, columns = shape(x)
    if not c.params.int8_scale_term or columns <= width:
        return x
    flat = c.reshape(x, (1, heads, rows * columns))
    front = c.add(Slice(starts=(0,), ends=(rows * width,), axes=(2,)), flat)
    return c.reshape(front, (1, heads, rows, width))


def _mask(c: Context[SdpaParams], heads: int, queries: int, keys: int) -> Value:
    """The mask, (query, key) for all heads or for each of them, checked."""
    mask = c.inputs[3]
    sizes = shape(mask)
    good = sizes[-2:] == (queries, keys) and sizes[:-2] in ((), (1,), (heads,))
    c.require(good, f"a mask {list(sizes)} does not suit scores {[heads, queries, keys]}")
    return mask


def _int8(
    c: Context[SdpaParams], sides: tuple[Value, ...], mask: Value | None, factor: float
) -> Value:
    """Attention with int8 products: quantized are rows of q and of weights, heads of k and v."""
    q, k, v = sides
    (heads, queries, width), (groups, keys, _) = shape(q), shape(k)
    shared = groups, heads // groups
    q = c.reshape(q, (1, *shared, queries, width))
    k, v = (c.reshape(x, (1, groups, 1, *shape(x)[1:])) for x in (k, v))
    scores = scaled(c, c.add(QuantizedMatMul(transpose_b=True), q, k), factor)
    if mask is None:
        weights = c.add(Softmax(axis=4), scores)
    else:
        scores = c.reshape(scores, (1, heads, queries, keys))
        weights = masked_softmax(c, c.add(Add(), scores, mask), _LOWEST)
        weights = c.reshape(weights, (1, *shared, queries, keys))
    y = c.add(QuantizedMatMul(), weights, v)
    return c.reshape(y, (1, heads, queries, shape(v)[-1]))


@attributes
class RotaryParams(Params):
    """Parameters of RotaryEmbed."""

    interleaved: int = param(0)


@layer("RotaryEmbed", params=RotaryParams, inputs=3)
def rotary_embed(c: Context[RotaryParams]) -> Value:
    """Rotary position embedding (Su et al. 2021); inputs: x, cosines, sines (sequence, pair)."""
    x = c.x
    c.require(rank(x) in (2, 3), f"takes (head, sequence, width) blobs, not {list(shape(x))}")
    rows, width = shape(x)[-2:]
    c.require(width % 2 == 0, f"rows of {width} elements are not whole pairs")
    tables = [_table(c, t, rows, width // 2) for t in c.inputs[1:]]
    return c.add(RotaryEmbedding(interleaved=bool(c.params.interleaved)), x, *tables)


def _table(c: Context[RotaryParams], table: Value, rows: int, pairs: int) -> Value:
    """The used rows and columns of a table, without the leading axis."""
    sizes = shape(table)
    good = len(sizes) == 2 and sizes[0] >= rows and sizes[1] >= pairs
    c.require(good, f"a table of shape {list(sizes)} does not suit {rows} rows of {pairs} pairs")
    if sizes != (rows, pairs):
        table = c.add(Slice(starts=(0, 0), ends=(rows, pairs), axes=(1, 2)), table)
    return c.reshape(table, (rows, pairs))
