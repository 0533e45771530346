"""Cases of every kernel by family: those of tests/lowering, and of kernels for GPUs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tests.lowering import op_cases
from tests.lowering.op_cases import Case
from tests.ops.chain import pairs, test_inverted, test_normalized, test_scaled

from vknn.graph import DType, Op
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import GlobalAveragePool
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.reduction import ReduceMean, Softmax

IMAGE = (1, 29, 11, 7)
RELU, SIGMOID = (ew.FusedStep(op(), None) for op in (ew.Relu, ew.Sigmoid))


def _chains() -> Iterator[Case]:
    """Every kind of chain, by small sizes and by some that fill a workgroup's tile."""
    for kind in pairs.KINDS:
        for name in pairs.CASES:
            yield _made(*pairs.case(kind, name, (pairs.RELU,), (pairs.SWISH,)))
    for name in test_inverted.CASES:
        yield _made(*test_inverted.case(name, (pairs.RELU,), (pairs.RELU6,)))
    for name in test_scaled.CASES:
        yield _made(*test_scaled.case(name, test_scaled.STEPS, (pairs.RELU6,)), 2)
    for sizes in test_normalized.SIZES:
        for kept in ((), (0,)):
            chain, arrays = test_normalized.chain(*kept), test_normalized.arrays_of(*sizes)
            yield Case(chain, tuple(a.shape for a in arrays), (1, 2, 4, 5))
    yield from _gates_and_heads()


def _gates_and_heads() -> Iterator[Case]:
    convolution, product, mean = (
        Conv((1, 1), (0,) * 4, (1, 1)),
        MatMul(transpose_b=True),
        GlobalAveragePool(),
    )
    for hidden in (3, 130):
        weights = ((hidden, 29, 1, 1), (hidden,), (29, hidden, 1, 1), (29,))
        links = ew.Fused(convolution, (RELU,)), ew.Fused(convolution, (SIGMOID,))
        yield Case(Chain(links, (3, 2)), ((1, 29, 1, 1), *weights), (1, 2, 3, 4))
        yield Case(Chain((mean, *links), (1, 2, 2)), (IMAGE, *weights), (1, 2, 3, 4))
    for columns in (83, 1031):
        links = (mean, Reshape((1, 29)), product, Softmax(1))
        yield Case(Chain(links, (1, 0, 2, 0)), (IMAGE, (columns, 29), (columns,)), (1, 2))
        given = ((3, 29), (columns, 29), (columns,))
        yield Case(Chain((product, Softmax(1)), (3, 0)), given, (1, 2))


def _made(op: Op, arrays: Sequence[np.ndarray], first: int = 1) -> Case:
    """A case of these arrays' shapes, constants from number ``first`` on."""
    return Case(op, tuple(a.shape for a in arrays), tuple(range(first, len(arrays))))


def _heads() -> Iterator[Case]:
    """Attention as language models have it: wide heads, a cache of keys, groups, long states."""
    for depth, width in ((64, 64), (128, 128), (256, 256), (130, 131), (37, 61)):
        q, k, v = (1, 2 * 3, 37, depth), (1, 2, 71, depth), (1, 2, 71, width)
        for mask in (None, (37, 71)):
            yield Case(Attention(6, 0.5, 2), (q, k, v, mask))
        yield Case(Attention(6, 0.5, 2), ((1, 6, 1, depth), k, v, (1, 1, 1, 71)))
        yield Case(Attention(2, 0.5, empty_zero=True), ((1, 5, 2 * depth),) * 3 + (None,))
    for interleaved in (False, True):
        for tables in ((37, 64), (2, 37, 64)):
            yield Case(RotaryEmbedding(interleaved), ((2, 3, 37, 128), tables, tables))
    for depth, width in ((128, 64), (37, 61)):
        q, v = (2, 19, 4 * depth), (2, 19, 2 * width)
        given = (q, (2, 19, 2 * depth), v, (2, 2, depth, width))
        for decay in (None, (2, 19, 2), (2, 19, 2 * depth)):
            for beta in (None, (2, 19, 2)):
                yield Case(LinearAttention(4, 2, 0.5), (*given, decay, beta))


def _integers() -> Iterator[Case]:
    """Cooperative matrices of bytes, and words of four bytes."""
    for x, w, group in (
        ((1, 67, 3, 5), (41, 67, 1, 1), 1),
        ((1, 7, 11, 13), (71, 7, 3, 3), 1),
        ((1, 8, 5, 5), (24, 4, 3, 3), 2),
    ):
        settings = (((w[0],), np.int32),) * 3
        op = QuantizedConv((1, 1), (w[2] // 2,) * 4, (1, 1), group)
        for dtype in (np.int8, np.uint8):
            yield Case(op, ((x, dtype), (w, np.int8), *settings), (1, 2, 3, 4))


def _rows() -> Iterator[Case]:
    """Sums in order, and ranges of rows so long that parts of them are looked at."""
    for rows in (3, 257):
        yield Case(ReduceMean((1,), in_order=True), ((rows, 1021),))
        yield Case(ReduceMean((2, 3), in_order=True), ((1, rows, 37, 31),))
    for shape in ((1, 40_000), (3, 4096)):
        for counts in (False, True):
            yield Case(DynamicRound("asymmetric", counts=counts), (shape,))
    yield Case(ew.Cast(DType.UINT8), ((1, 13, 9, 11),))


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    **op_cases.FAMILIES,
    "chains": _chains,
    "heads": _heads,
    "bytes": _integers,
    "long rows": _rows,
}
