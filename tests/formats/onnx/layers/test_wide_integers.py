"""Integers that 32 bits or a float do not hold: exact on both backends, modulo 2^bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import NUMBERS

from vknn.graph import DType

KINDS = (np.int64, np.uint64, np.uint32, np.int32)
Numbers = np.ndarray  # of Python's integers


def whole(kind: Any, *shape: int, seed: int = 3) -> np.ndarray:
    """Numbers of the whole range, the least and the largest among them."""
    info = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    found = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    found.reshape(-1)[:4] = [info.min, info.max, 1, info.max - 1]
    return found


def wrapped(numbers: Any, kind: Any) -> np.ndarray:
    """Numbers modulo 2^bits."""
    info = np.iinfo(kind)
    array = np.asarray(numbers, object)
    return ((array - info.min) % (1 << info.bits) + info.min).astype(kind)


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


PAIRS: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Div": towards_zero, "Mod": lambda a, b: a % b, "Max": max, "Min": min,
    "BitwiseAnd": lambda a, b: a & b, "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b, "Less": lambda a, b: a < b, "Equal": lambda a, b: a == b,
    "GreaterOrEqual": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, kind: Any, run) -> None:
    a, b = whole(kind, 5, 7), whole(kind, 5, 7, seed=4)[::-1].copy()
    b[0] = a[0]  # neighbours that a float32 cannot tell apart
    b[1] = np.where(a[1] > 0, a[1] - 1, a[1])
    b = np.where((b == 0) | (b.astype(object) == -1), kind(3), b)
    (found,) = run(name, [a, b])
    exact = np.vectorize(PAIRS[name], otypes=[object])(a.astype(object), b.astype(object))
    truth = name in ("Less", "Equal", "GreaterOrEqual")
    wanted = exact.astype(bool) if truth else wrapped(exact, kind)
    assert found.dtype == wanted.dtype and (found == wanted).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceMax"])
def test_reductions(name: str, kind: Any, run) -> None:
    exact: dict[str, Callable[[Sequence[int]], int]] = {
        "ReduceSum": sum, "ReduceProd": math.prod, "ReduceMax": max,
        "ReduceSumSquare": lambda row: sum(v * v for v in row),
    }  # fmt: skip
    a = whole(kind, 5, 7)
    (found,) = run(name, [a, np.array([1], np.int64)], fixed=(1,), keepdims=0)
    wanted = wrapped([exact[name](row) for row in a.tolist()], kind)
    assert found.dtype == kind and found.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_means_of_large_numbers(kind: Any, run) -> None:
    """Sums beyond 32 bits, of which the mean is none."""
    most = np.iinfo(kind).max
    a = np.array([[most, most, most - 3], [most, most, most], [7, 0, 1]], kind)
    (found,) = run("ReduceMean", [a, np.array([1], np.int64)], fixed=(1,), keepdims=0)
    assert found.dtype == kind and found.tolist() == [most - 1, most, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_products_and_running_sums(kind: Any, run) -> None:
    a, b = whole(kind, 5, 7), whole(kind, 7, 3, seed=5)
    wanted = wrapped(a.astype(object) @ b.astype(object), kind)
    for name, more in (("MatMul", {}), ("Gemm", {}), ("Einsum", {"equation": "ij,jk->ik"})):
        (found,) = run(name, [a, b], **more)
        assert found.dtype == kind and (found == wanted).all(), name
    axis = np.array(1, np.int64)
    (found,) = run("CumSum", [a, axis], fixed=(1,))
    assert (found == wrapped(np.cumsum(a.astype(object), 1), kind)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_neighbours(kind: Any, run) -> None:
    """Numbers near the largest, which are one and the same as float32."""
    most = int(np.iinfo(kind).max)
    less = np.random.default_rng(1).integers(0, 9, (5, 7)).astype(object)
    a = (most - less).astype(kind)
    (found,) = run("ArgMax", [a], axis=1, keepdims=0)
    assert found.dtype == np.int64 and (found == np.argmin(less, 1)).all()
    best, places = run("TopK", [a, np.array([3], np.int64)], fixed=(1,), outputs=2, axis=1)
    order = np.argsort(less, 1, kind="stable")[:, :3]
    assert (places == order).all() and (best == np.take_along_axis(a, order, 1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_casts(kind: Any, run) -> None:
    a = whole(kind, 5, 7)
    for to in (np.int64, np.uint64, np.uint32, np.int32, np.int8, np.uint16):
        (found,) = run("Cast", [a], to=NUMBERS[DType(np.dtype(to).name)])
        assert found.dtype == to and (found == wrapped(a.astype(object), to)).all()
    for real in (np.float32, np.float64):
        (found,) = run("Cast", [a], to=NUMBERS[DType(np.dtype(real).name)])
        assert found.dtype == real and (found == a.astype(real)).all()


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_scattered(name: str, run) -> None:
    a, updates = whole(np.int64, 5, 7), whole(np.int64, 4, 7, seed=6)
    rows, exact = [0, 2, 2, 4], a.astype(object)
    join = {"add": PAIRS["Add"], "mul": PAIRS["Mul"], "max": max, "min": min}[name]
    for row, update in zip(rows, updates.astype(object), strict=True):
        exact[row] = [join(u, v) for u, v in zip(exact[row], update, strict=True)]
    indices = np.array(rows, np.int64)[:, None]
    (found,) = run("ScatterND", [a, indices, updates], reduction=name)
    assert (found == wrapped(exact, np.int64)).all()
