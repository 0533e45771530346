from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vknn.graph import DType, Graph, GraphBuilder, TensorType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.dilations import merge_dilations

Blocks = tuple[int, ...]


def to_batch(g: GraphBuilder, x: Value, blocks: Blocks) -> Value:
    n, c, *space = x.type.dims
    inner = [s // b for s, b in zip(space, blocks, strict=True)]
    pairs = [size for pair in zip(inner, blocks, strict=True) for size in pair]
    count = len(blocks)
    cut = g.add(Reshape((n, c, *pairs)), x)
    order = (*range(3, 2 * count + 2, 2), 0, 1, *range(2, 2 * count + 2, 2))
    return g.add(Reshape((n * int(np.prod(blocks)), c, *inner)), g.add(Transpose(order), cut))


def to_space(g: GraphBuilder, y: Value, blocks: Blocks, order: tuple[int, ...] = ()) -> Value:
    n, c, *inner = y.type.dims
    n, count = n // int(np.prod(blocks)), len(blocks)
    split = g.add(Reshape((*blocks, n, c, *inner)), y)
    pairs = [axis for i in range(count) for axis in (count + 2 + i, i)]
    turned = g.add(Transpose(order or (count, count + 1, *pairs)), split)
    space = (s * b for s, b in zip(inner, blocks, strict=True))
    return g.add(Reshape((n, c, *space)), turned)


def net(
    dims: tuple[int, ...], blocks: Blocks, kernel: Blocks, group: int = 1, stride: int = 1
) -> Graph:
    g, count = GraphBuilder(), len(blocks)
    batch = to_batch(g, g.input("x", TensorType(dims)), blocks)
    rng = np.random.default_rng(1)
    w = g.constant(rng.standard_normal((4, dims[1] // group, *kernel), np.float32))
    pads = (*range(1, count + 1), *(0,) * count)
    conv = Conv((stride,) * count, pads, (2,) + (1,) * (count - 1), group)
    return g.finish({"y": to_space(g, g.add(conv, batch, w), blocks)})


@pytest.mark.parametrize(
    ("dims", "blocks", "kernel", "group"),
    [
        ((1, 3, 10, 12), (2, 3), (2, 3), 1),
        ((2, 4, 9, 5), (3, 1), (2, 1), 4),
        ((2, 2, 12), (4,), (2,), 1),
        ((1, 2, 6, 4, 8), (2, 1, 4), (2, 2, 2), 2),
    ],
)
def test_blocks_become_dilations(
    dims: tuple[int, ...], blocks: Blocks, kernel: Blocks, group: int,
    same_results: Callable[[Graph, Graph], None],
) -> None:  # fmt: skip
    before = net(dims, blocks, kernel, group)
    after = merge_dilations(before)
    (node,) = after.nodes
    assert isinstance(node.op, Conv)
    assert node.op.dilations == (2 * blocks[0], *blocks[1:])
    same_results(before, after)


def test_quantized_ones_too(same_results: Callable[[Graph, Graph], None]) -> None:
    g = GraphBuilder()
    batch = to_batch(g, g.input("x", TensorType((1, 2, 8, 6), DType.INT8)), (2, 3))
    weights = np.ones((2, 1, 3, 1), np.int8), np.full(1, 1 << 30, np.int32), np.zeros(1, np.int32)
    w, q, shift = map(g.constant, weights)
    conv = QuantizedConv((1, 1), (1, 0, 1, 0), (1, 1), 2, zero_in=5)
    y = g.add(conv, batch, w, None, q, shift)
    before = g.finish({"y": to_space(g, y, (2, 3))})
    after = merge_dilations(before)
    assert [n.op.type_name for n in after.nodes] == ["QuantizedConv"]
    same_results(before, after)


def test_what_is_none_stays(stays: Callable[..., None]) -> None:
    stays(net((1, 3, 8, 12), (2, 2), (2, 2), stride=2), merge_dilations)
    g = GraphBuilder()  # blocks go back the other way round
    batch = to_batch(g, g.input("x", TensorType((1, 2, 8, 8))), (2, 2))
    w = g.constant(np.ones((2, 2, 1, 1), np.float32))
    y = g.add(Conv((1, 1), (0, 0, 0, 0), (1, 1)), batch, w)
    stays(g.finish({"y": to_space(g, y, (2, 2), (2, 3, 4, 1, 5, 0))}), merge_dilations)
    g = GraphBuilder()  # somebody reads the batch
    batch = to_batch(g, g.input("x", TensorType((1, 2, 8, 8))), (2, 2))
    y = g.add(
        Conv((1, 1), (0, 0, 0, 0), (1, 1)), batch, g.constant(np.ones((2, 2, 1, 1), np.float32))
    )
    stays(g.finish({"y": to_space(g, y, (2, 2)), "batch": batch}), merge_dilations)
