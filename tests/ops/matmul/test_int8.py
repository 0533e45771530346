"""Products of matrices quantized on the way: the reference by hand and by loops, the device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import check, f32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.matmul import QuantizedMatMul, RoundBlocks

RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def naive(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of two matrices of floats, element by element."""
    y = np.empty((len(a), b.shape[1]), np.float32)
    largest = max(abs(v) for v in b.ravel())
    b_scale = np.float32(127) / largest if largest else np.float32(1)
    for i, row in enumerate(a):
        largest = max(abs(v) for v in row)
        a_scale = np.float32(127) / largest if largest else np.float32(1)
        for j, column in enumerate(b.T):
            products = [
                whole(x * a_scale) * whole(w * b_scale) for x, w in zip(row, column, strict=True)
            ]
            y[i, j] = sum(products) / (float(a_scale) * float(b_scale))
    return y


def whole(v: np.float32) -> int:
    return int(abs(float(v)) + 0.5) * (1 if v >= 0 else -1)


@pytest.mark.host
def test_by_hand() -> None:
    a = np.array([[1, -2], [0, 0]], np.float32)  # scales 63.5 and 1: 64 (half away), -127
    b = np.array([[127], [1]], np.float32)  # scale 1
    y = np.array([[(64 * 127 - 127) / 63.5], [0]], np.float32)
    check(QuantizedMatMul(), a, b, None, None, expected=y)
    check(QuantizedMatMul(transpose_b=True), a, b.T.copy(), None, None, expected=y)


@pytest.mark.host
def test_given_scales_by_hand() -> None:
    a, b = np.array([[2, 3], [-4, 5]], np.int8), np.array([[1, 10], [7, -1]], np.int8)
    y = np.array([[23, 17], [31, -45]]) / np.array([[2], [4]]) / np.array([8, 16])
    scales = np.array([2, 4], np.float32), np.array([8, 16], np.float32)
    check(QuantizedMatMul(), a, b, *scales, expected=y.astype(np.float32))


@pytest.mark.host
def test_naive() -> None:
    a, b = floats(5, 7), floats(7, 3)
    a[2] = 0
    for op in (QuantizedMatMul(ta, tb) for ta in (False, True) for tb in (False, True)):
        left = a.T.copy() if op.transpose_a else a
        right = b.T.copy() if op.transpose_b else b
        check(op, left, right, expected=naive(a, b))
    stacked = np.stack([naive(a, b), naive(-3 * a, b * b)])
    check(QuantizedMatMul(), np.stack([a, -3 * a]), np.stack([b, b * b]), expected=stacked)


I8 = TensorType((5, 5), DType.INT8)


@pytest.mark.host
@pytest.mark.parametrize(
    ("types", "words"),
    [
        ((f32(5, 7), f32(5, 7)), "rows"),
        ((f32(5, 5), I8), "without its scale"),
        ((I8, f32(5, 5)), "without its scale"),
        ((f32(5, 5), f32(5, 5), f32(5)), "its own scales"),
        ((I8, f32(5, 5), f32(4)), "a_scale"),
        ((f32(5, 5), I8, None, f32(5, 1)), "b_scale"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_infer_refuses(types: tuple[TensorType | None, ...], words: str) -> None:
    refuses(QuantizedMatMul(), *types, match=words)


SHAPES = [
    ((1, 1), (1, 1)),
    ((5, 7), (7, 3)),
    ((3, 5, 7), (7, 4)),
    ((5, 8), (3, 8, 2)),
    ((2, 3, 5, 7), (2, 3, 7, 3)),
    ((2, 3, 2, 7), (2, 1, 7, 5)),
    ((37, 70), (70, 41)),
]


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize("a, b", SHAPES, ids=str)
def test_floats(a: tuple[int, ...], b: tuple[int, ...], transposed: tuple[bool, bool]) -> None:
    a = (*a[:-2], a[-1], a[-2]) if transposed[0] else a
    b = (*b[:-2], b[-1], b[-2]) if transposed[1] else b
    x, w = floats(*a), floats(*b)
    x[..., 0, :] = 0
    check_op(QuantizedMatMul(*transposed), x, w, access=("storage",))


@pytest.mark.parametrize("a, b", SHAPES[:4], ids=str)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_given(a: tuple[int, ...], b: tuple[int, ...], precision: str) -> None:
    op = QuantizedMatMul()
    m, n = a[-2], b[-1]
    for scales in ((1, 1), (m, n)):
        s, t = np.abs(floats(scales[0])) + 1, np.abs(floats(scales[1])) + 1
        ways = [
            (floats(*a), integers(*b), None, t),
            (integers(*a), floats(*b), s, None),
            (integers(*a), integers(*b), s, t),
        ]
        for arrays in ways:
            check_op(op, *arrays, constants=(2, 3), access=("image",), precision=precision)
            if precision == "fp32":
                check_op(op, *arrays, access=("texel",), kind="discrete")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_large_matrix_is_searched_by_rows(precision: str) -> None:
    b = floats(2, 71, 67)
    b[1] *= 0.01
    for kind in ("cpu", "discrete"):
        op = QuantizedMatMul(transpose_b=True)
        check_op(op, floats(2, 3, 67), b, kind=kind, access=("texel",), precision=precision)


def test_all_zero_and_large() -> None:
    zero = np.zeros((2, 3), np.float32)
    check_op(QuantizedMatMul(), zero, zero.T.copy())
    check_op(QuantizedMatMul(), 1e30 * floats(3, 5), 1e-30 * floats(5, 2))


# --- rounding in blocks -------------------------------------------------------------------------


@pytest.mark.host
def test_round_blocks_by_hand() -> None:
    x = np.array([[127, 0.5, -1.4, 254, 3, 0], [0, 0, 0, 1, 2, -0.1]], np.float32)
    y = [[127, 1, -1, 254, 4, 0], [0, 0, 0, 127 / 127 * 64 / 63.5, 2, -6 / 63.5]]
    check(RoundBlocks(3), x, expected=np.array(y, np.float32))
    check(RoundBlocks(9), x[:1], expected=np.array([[128, 0, -2, 254, 4, 0]], np.float32))
    refuses(RoundBlocks(0), f32(3), match="blocks of 0")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 3, 32), (5, 131)], ids=str)
def test_round_blocks(shape: tuple[int, ...], precision: str) -> None:
    x = floats(*shape)
    x[..., -1] = 0
    for size in (1, 3, 32):
        check_op(RoundBlocks(size), x, precision=precision)
