"""Matrix products against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, refuses
from vknn.graph import Op, TensorType
from vknn.ops.matmul import MatMul, MatMulInteger


def naive(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Broadcast by hand, in Python integers or float64."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*lead, *a.shape[-2:])).astype(object)
    b = np.broadcast_to(b, (*lead, *b.shape[-2:])).astype(object)
    y = np.zeros((*lead, a.shape[-2], b.shape[-1]), object)
    for *at, m, n in np.ndindex(*y.shape):
        for k in range(a.shape[-1]):
            y[(*at, m, n)] += a[(*at, m, k)] * b[(*at, k, n)]
    return y


# a [..., M, K] and b [..., K, N]
CASES = [
    ((2, 3), (3, 5)),
    ((1, 7), (7, 1)),
    ((1, 2, 3), (3, 5)),
    ((2, 3), (4, 3, 5)),
    ((3, 1, 2, 3), (2, 3, 4)),
    ((2, 1, 1, 2, 3), (1, 3, 2, 3, 1)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 5)),
]


@pytest.mark.parametrize(("left", "right"), CASES)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b, bias = data(*left), data(*right, seed=1), data(right[-1], seed=2)
    y = naive(a, b).astype(np.float64)
    ta, tb = (np.ascontiguousarray(m.swapaxes(-1, -2)) for m in (a, b))
    check(MatMul(), a, b, expected=y.astype(np.float32))
    check(MatMul(), a, b, None, expected=y.astype(np.float32))
    check(MatMul(), a, b, bias, expected=(y + bias).astype(np.float32))
    check(MatMul(transpose_a=True), ta, b, bias, expected=(y + bias).astype(np.float32))
    check(MatMul(transpose_b=True), a, tb, expected=y.astype(np.float32))
    check(MatMul(True, True), ta, tb, expected=y.astype(np.float32))
    a8, b8 = data(*left, dtype="int8"), data(*right, dtype="int8", seed=1)
    exact = naive(a8.astype(int), b8.astype(int)).astype(np.int32)
    check(MatMulInteger(), a8, b8, expected=exact)
    tb8 = np.ascontiguousarray(b8.swapaxes(-1, -2))
    check(MatMulInteger(transpose_b=True), a8, tb8, expected=exact)


def test_sums_are_kept_in_float64() -> None:
    a = np.array([[1e8, 1, -1e8, 1]], np.float32)
    check(MatMul(), a, np.ones((4, 1), np.float32), expected=np.array([[2]], np.float32))


REFUSED = [
    (MatMul(), [f32(2, 3), f32(4, 5)], "has 3 columns, .* has 4 rows"),
    (MatMul(transpose_a=True), [f32(2, 3), f32(3, 5)], "has 2 columns"),
    (MatMul(transpose_b=True), [f32(2, 3), f32(3, 5)], "has 5 rows"),
    (MatMul(), [f32(3), f32(3, 5)], "rank 2"),
    (MatMul(), [f32(2, 2, 3), f32(3, 3, 5)], "do not broadcast"),
    (MatMul(), [f32(2, 3), f32(3, 5), f32(4)], "bias has shape"),
    (MatMul(), [f32(2, 3), i8(3, 5)], "wants float32"),
    (MatMul(), [i8(2, 3), i8(3, 5)], "floating point"),
    (MatMul(), [f32(2, 3)], "takes 2 to 3 inputs"),
    (MatMulInteger(), [f32(2, 3), i8(3, 5)], "wants int8"),
    (MatMulInteger(), [i8(2, 3), i8(2, 5)], "rows"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


def test_open_dimensions() -> None:
    assert MatMul().infer(f32(None, 2, 3), f32(3, 5), f32(5)) == (f32(None, 2, 5),)
