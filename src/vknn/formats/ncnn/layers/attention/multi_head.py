"""MultiHeadAttention, on floats and with int8 or blockwise quantized weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.elementwise.arithmetic import scaled
from vknn.formats.ncnn.layers.quantized.block import BlockParams, blocks_of
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.attention import Attention
from vknn.ops.elementwise import Add
from vknn.ops.elementwise.logic import Greater, Where
from vknn.ops.matmul import MatMul, QuantizedMatMul
from vknn.ops.movement.shape import Concat, Transpose
from vknn.ops.reduction import ReduceMax, Softmax

#: Stands for a scale that the file lacks.
_DEFAULT_SCALE = math.inf
#: (sequence, head, width) <-> (head, sequence, width)
_SWAP = Transpose(perm=(0, 2, 1, 3))


@attributes
class AttentionParams(BlockParams):
    """Parameters of MultiHeadAttention."""

    embed_dim: int = param(0)
    num_heads: int = param(1, 1)
    weight_data_size: int = param(2)
    kdim: int = param(3, like="embed_dim")
    vdim: int = param(4, like="embed_dim")
    attn_mask: int = param(5)
    scale: float = param(6, _DEFAULT_SCALE)
    kv_cache: int = param(7)

    @property
    def qdim(self) -> int:
        """Width of q and of the output."""
        return self.weight_data_size // self.embed_dim

    @property
    def factor(self) -> float:
        """Factor of the projected q: the scale, or 1 / sqrt(width of a head)."""
        if self.scale != _DEFAULT_SCALE:
            return self.scale
        return 1 / math.sqrt(self.embed_dim // self.num_heads)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shapes (outputs, inputs) of the matrices of the projections."""
        e, q = self.embed_dim, self.qdim
        return {"q": (e, q), "k": (e, self.kdim), "v": (e, self.vdim), "out": (q, e)}

    def check(self) -> None:
        e, heads = self.embed_dim, self.num_heads
        require(e > 0, f"embed_dim {e} must be positive")
        require(heads > 0 and e % heads == 0, f"{heads} heads do not divide embed_dim {e}")
        size = self.weight_data_size
        require(size > 0 and size % e == 0, f"weight_data_size {size} is no multiple of embed_dim")
        require(self.kdim > 0 and self.vdim > 0, "kdim and vdim must be positive")
        blocks_of(self.quantize_term)


def _weights(p: AttentionParams) -> list[WeightSpec]:
    blocks, specs = p.blocks, []
    for name, (rows, columns) in p.shapes.items():
        if blocks is not None:
            specs.append(blocks.weight(f"{name}_weight", rows, columns))
        else:
            spec = WeightSpec(f"{name}_weight", (rows, columns), tagged=True, int8=p.int8)
            specs.append(spec)
        specs.append(WeightSpec(f"{name}_bias", (rows,)))
    if blocks is not None:
        for name, sizes in p.shapes.items():
            specs.append(blocks.scales(f"{name}_weight", *sizes))
        for name, (_, columns) in p.shapes.items():
            specs += blocks.inputs(f"{name}_weight", columns)
    elif p.int8:
        specs += [WeightSpec(f"{name}_weight_scale", (p.embed_dim,)) for name in "qkv"]
        specs.append(WeightSpec("out_weight_scale", (1,)))
    return specs


def cache_slots(p: Params, count: int) -> Sequence[int]:
    """Inputs that may be empty: the last two of a layer with a key-value cache."""
    return (count - 2, count - 1) if getattr(p, "kv_cache", 0) else ()


@layer(
    "MultiHeadAttention",
    params=AttentionParams,
    weights=_weights,
    inputs=(1, 6),
    outputs=(1, 3),
    may_be_empty=cache_slots,
)
def multi_head_attention(c: Context[AttentionParams]) -> Value | Sequence[Value]:
    """Attention with projections. Inputs: q; or q and k = v; or q, k and v; then the mask; then
    cached keys and values.

    ncnn differs: cached keys and values are (head, sequence, width) blobs; others have no heads.
    ncnn differs: in cross-attention with cached keys, k and v are ignored.
    ncnn differs: matrices in blocks of 8 bits multiply inputs rounded to 8 bits in the same blocks.
    ncnn differs: int8 attention rounds results of float32 sums, in an order of the CPU's vectors
    and with approximate reciprocals; a value within a few float digits of a half may be one step
    off, which moves outputs by about a thousandth of their range.
    """
    p, blobs = c.params, list(c.inputs)
    cached = [blobs.pop(), blobs.pop()][::-1] if p.kv_cache and len(blobs) > 2 else []
    mask = blobs.pop() if p.attn_mask and len(blobs) > 1 else None
    good = 1 <= len(blobs) <= 3 and bool(cached) == bool(p.kv_cache)
    c.require(
        good and (mask is not None) == bool(p.attn_mask), f"cannot take {len(c.inputs)} inputs"
    )
    tops = 3 if p.kv_cache else 1
    c.require(len(c.record.tops) == tops, f"has {tops} outputs, not {len(c.record.tops)}")
    for x in blobs:
        c.require(rank(x) == 2, f"takes (sequence, width) blobs, not {list(shape(x))}")
    if mask is not None:
        heads = (p.num_heads,) if rank(mask) == 3 else ()
        c.require(shape(mask)[:-2] == heads, f"a mask cannot have the shape {list(shape(mask))}")
    sides = (blobs[0], blobs[min(1, len(blobs) - 1)], blobs[-1])
    work = _Int8Attention(c) if p.int8 else _FloatAttention(c)
    if not p.kv_cache:
        q, k, v = map(work.project, "qkv", sides)
        return work.attention(q, k, v, mask)
    past = _past(c, cached) or (None, None)
    k, v = (
        work.with_past(name, x, before, len(blobs) > 1)
        for name, x, before in zip("kv", sides[1:], past, strict=True)
    )
    return work.attention_with_cache(work.project("q", sides[0]), k, v, mask), k, v


def _past(c: Context[AttentionParams], cached: Sequence[Value]) -> Sequence[Value]:
    """Cached keys and values, (head, sequence, width); nothing where they are empty."""
    if cached[0].type.size == 0:
        return ()
    p, shapes = c.params, [shape(x) for x in cached]
    head = p.num_heads, p.embed_dim // p.num_heads
    good = shapes[0] == shapes[1] and len(shapes[0]) == 3 and shapes[0][::2] == head
    c.require(good, f"cannot keep keys and values of shapes {[list(s) for s in shapes]}")
    return cached


def masked_softmax(c: Context[P], scores: Value, lowest: float) -> Value:
    """Softmax of scores (1, head, query, key) over keys; 0 for rows without a score above
    ``lowest``."""
    unmasked = c.add(Greater(), c.add(ReduceMax((3,)), scores), c.scalar(lowest))
    return c.add(Where(), unmasked, c.add(Softmax(axis=3), scores), c.scalar(0.0))


@dataclass(frozen=True)
class _Attention:
    """Steps of attention. ``to_heads`` takes what ``project`` gives."""

    c: Context[AttentionParams]

    def columns(self, name: str, x: Value) -> int:
        """Width of x. Raises Malformed unless it is that of the matrix ``name``."""
        columns = self.c.params.shapes[name][1]
        good = shape(x)[1] == columns
        self.c.require(good, f"{name} has width {shape(x)[1]}, not {columns}")
        return columns

    def project(self, name: str, x: Value) -> Value:
        """x times the matrix ``name`` plus bias."""
        raise NotImplementedError

    def to_heads(self, x: Value) -> Value:
        """A projection as (head, sequence, width)."""
        raise NotImplementedError

    def with_past(self, name: str, x: Value, before: Value | None, cross: bool) -> Value:
        """Keys or values behind the cached ones; in cross-attention the cached ones alone."""
        if before is not None and cross:
            return before
        y = self.to_heads(self.project(name, x))
        return y if before is None else self.c.add(Concat(axis=2), before, y)

    def out(self, y: Value) -> Value:
        """Output projection of (head, sequence, width)."""
        y = self.c.add(_SWAP, y)
        return self.project("out", self.c.reshape(y, (1, shape(y)[0], self.c.params.embed_dim)))


class _FloatAttention(_Attention):
    """Attention with float products."""

    def project(self, name: str, x: Value) -> Value:
        """Projection (sequence, columns) -> (sequence, width)."""
        c, columns, full = self.c, self.columns(name, x), f"{name}_weight"
        blocks = c.params.blocks
        if blocks is not None:
            weight, x = blocks.matrix(c, full, columns), blocks.rounded(c, x, full)
        else:
            weight = c.weight(full)
            c.require(weight.dtype != np.int8, "int8 weights without a quantize_term")
        matrix = c.constant(weight, full)
        return c.add(MatMul(transpose_b=True), x, matrix, c.weight_value(f"{name}_bias"))

    def to_heads(self, x: Value) -> Value:
        heads = self.c.params.num_heads
        return self.c.add(_SWAP, self.c.reshape(x, (1, shape(x)[0], heads, shape(x)[1] // heads)))

    def attention(self, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        """Output for projections (sequence, width)."""
        op = Attention(num_heads=self.c.params.num_heads, scale=self.c.params.factor)
        return self.project("out", self.c.add(op, q, k, v, mask))

    def attention_with_cache(self, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        """Output for a projection q (sequence, width), k and v (head, sequence, width)."""
        op = Attention(num_heads=self.c.params.num_heads, scale=self.c.params.factor)
        return self.out(self.c.add(op, self.to_heads(q), k, v, mask))


class _Int8Attention(_Attention):
    """Attention with int8 products, whose float operands are quantized dynamically."""

    def project(self, name: str, x: Value) -> Value:
        """Projection (sequence, columns) -> (width, sequence), with a scale for each row of the
        matrix and one for x; "out" -> (sequence, width), with one for the matrix and each row of x.
        """
        c = self.c
        self.columns(name, x)
        weight, scale = self._weight(name), c.weight_value(f"{name}_weight_scale")
        op = QuantizedMatMul(transpose_b=True)
        if name == "out":
            y = c.add(op, x, c.constant(weight, "out_weight"), None, scale)
            return c.add(Add(), y, c.weight_value("out_bias"))
        y = c.add(op, c.constant(weight[None], f"{name}_weight"), x, scale, None)
        bias = c.weight(f"{name}_bias").reshape(1, -1, 1)
        y = c.add(Add(), y, c.constant(bias, f"{name}_bias"))
        return scaled(c, y, c.params.factor) if name == "q" else y

    def _weight(self, name: str) -> np.ndarray:
        weight = self.c.weight(f"{name}_weight")
        term = f"quantize_term (parameter 18) {self.c.params.quantize_term}"
        self.c.require(weight.dtype == np.int8, f"{name}_weight must be int8 with {term}")
        return weight

    def _split_heads(self, x: Value) -> Value:
        """(width, sequence) as (head, width, sequence)."""
        heads = self.c.params.num_heads
        return self.c.reshape(x, (1, heads, shape(x)[0] // heads, shape(x)[1]))

    def to_heads(self, x: Value) -> Value:
        return self.c.add(Transpose(perm=(0, 1, 3, 2)), self._split_heads(x))

    def attention(self, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        """Output for projections (width, sequence)."""
        scores = self.c.add(QuantizedMatMul(transpose_a=True), *map(self._split_heads, (q, k)))
        op = QuantizedMatMul(transpose_b=True)
        return self.out(self.c.add(op, self._softmax(scores, mask), self._split_heads(v)))

    def attention_with_cache(self, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        """Output for q (width, sequence), k and v (head, sequence, width)."""
        scores = self.c.add(QuantizedMatMul(True, True), self._split_heads(q), k)
        return self.out(self.c.add(QuantizedMatMul(), self._softmax(scores, mask), v))

    def _softmax(self, scores: Value, mask: Value | None) -> Value:
        if mask is None:
            return self.c.add(Softmax(axis=3), scores)
        return masked_softmax(self.c, self.c.add(Add(), scores, mask), -math.inf)
