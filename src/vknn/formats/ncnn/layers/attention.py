"""MultiHeadAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.problems import Unsupported
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value
from vknn.ops.attention import Attention
from vknn.ops.matmul import MatMul

#: Stands for a scale that the file does not give.
_DEFAULT_SCALE = math.inf


@dataclass(frozen=True)
class AttentionParams(Params):
    """Parameters of MultiHeadAttention."""

    embed_dim: int = param(0)
    num_heads: int = param(1, 1)
    weight_data_size: int = param(2)
    kdim: int = param(3, like="embed_dim")
    vdim: int = param(4, like="embed_dim")
    attn_mask: int = param(5)
    scale: float = param(6, _DEFAULT_SCALE)
    kv_cache: int = param(7)
    quantize_term: int = param(18)

    @property
    def qdim(self) -> int:
        """The width of q and of the output."""
        return self.weight_data_size // self.embed_dim

    @property
    def factor(self) -> float:
        """What the projected q is multiplied by."""
        if self.scale != _DEFAULT_SCALE:
            return self.scale
        return 1 / math.sqrt(self.embed_dim // self.num_heads)

    def check(self) -> None:
        if self.quantize_term:
            raise Unsupported(f"quantized weights (parameter 18 is {self.quantize_term})")
        if self.kv_cache:
            raise Unsupported("a key-value cache (parameter 7)")
        e, heads = self.embed_dim, self.num_heads
        require(e > 0, f"embed_dim {e} must be positive")
        require(heads > 0 and e % heads == 0, f"{heads} heads do not divide embed_dim {e}")
        size = self.weight_data_size
        require(size > 0 and size % e == 0, f"weight_data_size {size} is no multiple of embed_dim")
        require(self.kdim > 0 and self.vdim > 0, "kdim and vdim must be positive")


def _weights(p: AttentionParams) -> list[WeightSpec]:
    e = p.embed_dim
    shapes = {"q": (e, p.qdim), "k": (e, p.kdim), "v": (e, p.vdim), "out": (p.qdim, e)}
    specs = []
    for name, sizes in shapes.items():
        specs.append(WeightSpec(f"{name}_weight", sizes, tagged=True))
        specs.append(WeightSpec(f"{name}_bias", sizes[:1]))
    return specs


@layer("MultiHeadAttention", params=AttentionParams, weights=_weights, bottoms=(1, 4))
def multi_head_attention(c: Context[AttentionParams]) -> Value:
    """Inputs: q; or q and k = v; or q, k and v; then the mask when there is one."""
    p, blobs = c.params, list(c.inputs)
    mask = blobs.pop() if p.attn_mask else None
    c.require(1 <= len(blobs) <= 3, f"cannot take {len(c.inputs)} inputs")
    for x in blobs:
        c.require(rank(x) == 2, f"takes (sequence, width) blobs, not {list(shape(x))}")
    if mask is not None:
        c.require(rank(mask) in (2, 3), f"a mask cannot have the shape {list(shape(mask))}")
    q = blobs[0]
    k = blobs[min(1, len(blobs) - 1)]
    v = blobs[-1]
    heads = (_project(c, "q", q), _project(c, "k", k), _project(c, "v", v))
    y = c.add(Attention(num_heads=p.num_heads, scale=p.factor), *heads, mask)
    return _project(c, "out", y)


def _project(c: Context[AttentionParams], name: str, x: Value) -> Value:
    weight = c.weight(f"{name}_weight")
    c.require(weight.dtype != np.int8, "int8 weights without a quantize_term")
    c.require(
        shape(x)[1] == weight.shape[1], f"{name} has width {shape(x)[1]}, not {weight.shape[1]}"
    )
    matrix = c.constant(weight, f"{name}_weight")
    return c.add(MatMul(transpose_b=True), x, matrix, c.weight_value(f"{name}_bias"))
