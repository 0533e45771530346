"""Projections with one weight for queries, keys and values."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.attention.heads import split_heads
from vknn.formats.onnx.layers.common.port_shapes import shaped
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Slice


def projected(c: Context, heads: int) -> list[Value]:
    """q, k and v, each [B, S, its width], of the inputs input, weights and bias."""
    x, weights = c.value(0), c.value(1)
    c.require(x.type.rank == 3 and weights.type.rank == 2, f"takes no {x.type}, {weights.type}")
    width = weights.type.dims[1]
    sizes = c.int_list("qkv_hidden_sizes", (width // 3,) * 3, 3)
    good = sum(sizes) == width and all(n > 0 and n % heads == 0 for n in sizes)
    c.require(good, f"parts {width} columns into {list(sizes)} of {heads} heads")
    return parts(c, c.add(MatMul(), x, weights, c.optional(2)), sizes)


def sharing_inputs(c: Context, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """q [B, S, heads * D], k and v [B, S, groups * D], which may come packed in the first input."""
    q = shaped(c, 0, "query", (None, None, None)) or c.x
    batch, length, width = q.type.dims
    packed = c.optional(1) is None
    c.require(packed == (c.optional(2) is None), "has keys or values alone")
    count = heads + 2 * groups if packed else heads
    c.require(width % count == 0, f"has queries {q.type}, which {count} heads do not divide")
    depth = width // count
    k = shaped(c, 1, "key", (batch, length, groups * depth))
    v = shaped(c, 2, "value", (batch, length, groups * depth))
    if k is None or v is None:
        q, k, v = parts(c, q, (heads * depth, groups * depth, groups * depth))
    for number, name in ((3, "past_key"), (4, "past_value")):
        shaped(c, number, name, (batch, groups, None, None))
    c.require((c.optional(3) is None) == (c.optional(4) is None), "has a half of a past")
    return q, k, v


def parts(c: Context, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Parts of the last axis of these sizes, one behind the other."""
    axis, found, first = x.type.rank - 1, [], 0
    c.require(x.type.dims[axis] == sum(sizes), f"parts {x.type} into {list(sizes)}")
    for size in sizes:
        found.append(c.add(Slice((first,), (first + size,), (axis,)), x))
        first += size
    return found


def biased(c: Context, given: Sequence[Value | None], bias: Value | None) -> list[Value | None]:
    """q, k and v, each [B, S, its width], plus their parts of a bias; None stays None."""
    if bias is None:
        return list(given)
    q_width = given[0].type.dims[-1] if given[0] is not None else 0
    sizes = [q_width, q_width, bias.type.size - 2 * q_width]
    found: list[Value | None] = []
    for value, part in zip(given, parts(c, bias, sizes), strict=True):
        found.append(None if value is None else c.add(ew.Add(), value, part))
    return found


def all_split(c: Context, given: Sequence[Value], counts: Sequence[int]) -> list[Value]:
    """Tensors of rank 3 with so many heads on an axis of their own; of rank 4 as they are."""
    return [
        v if v.type.rank == 4 else split_heads(c, v, n) for v, n in zip(given, counts, strict=True)
    ]
