"""Reductions over any axes on the device, against NumPy."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.reduction import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)

RNG = np.random.default_rng(41)
ALL = (ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1)
ALL += (ReduceL2, ReduceLogSum, ReduceLogSumExp)
INTEGER = (ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.6 + 0.8).astype(np.float32)


def positive(kind: type[Reduction], x: np.ndarray) -> np.ndarray:
    return np.abs(x) + 0.1 if kind is ReduceLogSum else x


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("axes", [None, (1,), (2, 3), (0, 2)], ids=str)
def test_every_kind(kind: type[Reduction], axes: tuple[int, ...] | None) -> None:
    x = positive(kind, floats(2, 5, 3, 7))
    check_op(kind(axes, keepdims=False), x, access=("storage",))


def subsets(rank: int) -> list[tuple[int, ...]]:
    axes = range(rank)
    return [s for n in range(1, rank + 1) for s in itertools.combinations(axes, n)]


@pytest.mark.parametrize("shape", [(5,), (8,), (3, 5), (2, 7, 4), (1, 6, 2, 8), (2, 3, 1, 5, 4)])
def test_every_set_of_axes(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    for axes in subsets(len(shape)):
        for keepdims in (True, False):
            kind = ReduceLogSumExp if keepdims else ReduceProd
            check_op(kind(axes, keepdims), x, access=("image",))


@pytest.mark.parametrize("kind", INTEGER)
@pytest.mark.parametrize("axes", [None, (1,), (2, 3), (-1,)], ids=str)
def test_integers(kind: type[Reduction], axes: tuple[int, ...] | None) -> None:
    x = RNG.integers(-9, 9, (2, 5, 3, 7), np.int32)
    check_op(kind(axes, False), x, access=("storage",))


def test_any_and_all() -> None:
    x = RNG.random((3, 5, 4)) < 0.5
    for axes in ((1,), (2,), (0, 1)):
        check_op(ReduceMax(axes), x, access=("storage",))
        check_op(ReduceMin(axes), x, access=("storage",))


#: One of each way to join and to finish.
UNLIKE = (ReduceMean, ReduceMin, ReduceProd, ReduceL2, ReduceLogSumExp)


@pytest.mark.parametrize("kind", UNLIKE)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1, 5, 61, 67), (2, 3)), ((2, 4099), (1,)), ((3000, 8), (0,)), ((7, 700, 3), None)],
)
def test_long_rows(
    kind: type[Reduction], shape: tuple[int, ...], axes: tuple[int, ...] | None
) -> None:
    """Rows that are cut into parts, too."""
    x = positive(kind, floats(*shape))
    x = 1 + x * 0.001 if kind is ReduceProd else x
    # Each of n factors adds its rounding to that of a product.
    tolerance = 1e-4 if kind is ReduceProd else 1e-5
    check_op(kind(axes), x, access=("storage",), tolerance=tolerance)
    check_op(kind(axes), x, access=("image",), kind="discrete", tolerance=tolerance)


def test_integers_in_parts() -> None:
    x = RNG.integers(-(2**30), 2**30, (1, 5, 61, 67), np.int32)
    for axes in ((2, 3), (1, 2, 3)):
        check_op(ReduceSum(axes), x, access=("storage",))


def test_nan_and_infinity() -> None:
    x = floats(4, 9)
    x[0, 3], x[1, 2], x[2, 1] = np.nan, np.inf, -np.inf
    for kind in (ReduceMax, ReduceMin, ReduceSum, ReduceLogSumExp):
        check_op(kind((1,)), x, access=("storage",))
    check_op(ReduceLogSumExp((0,)), np.full((3, 5), -np.inf, np.float32), access=("storage",))
    check_op(ReduceLogSumExp((0,)), floats(3, 5) + 200, access=("storage",))


@pytest.mark.parametrize("kind", UNLIKE)
def test_reduction_in_fp16(kind: type[Reduction]) -> None:
    for axes in ((1,), (2, 3), (3,)):
        check_op(kind(axes, False), positive(kind, floats(1, 5, 3, 7)), precision="fp16")
    if kind is not ReduceProd:
        check_op(kind((2, 3)), floats(1, 5, 61, 67), access=("storage",), precision="fp16")


@pytest.mark.parametrize("shape", [(1, 5, 37, 41), (2, 8, 3, 7), (3, 1, 1, 1)])
def test_means_of_sums_in_order(shape: tuple[int, ...]) -> None:
    """To the last digit, which a sum by parts has differently."""
    x = np.random.default_rng(3).random(shape, np.float32)
    op = ReduceMean((2, 3), in_order=True)
    (y,) = op.reference(x)
    total = np.zeros(shape[:2], np.float32)
    for row in range(shape[2]):
        for column in range(shape[3]):
            total += x[:, :, row, column]
    np.testing.assert_array_equal(y[:, :, 0, 0], total / np.float32(shape[2] * shape[3]))
    check_op(op, x)
    check_op(op, x, kind="discrete")
    check_op(op, x, precision="fp16", access=("storage",))


@pytest.mark.parametrize("rounds", [2, 5, 13, 14, 15])
def test_means_in_order_of_rows_longer_than_a_loop(rounds: int) -> None:
    """Several dispatches, each of which goes on from the sums that the last one left."""
    for shape in ((2, 5, 2, 7), (1, 3, 1, 1)):
        x = np.random.default_rng(3).random(shape, np.float32)
        check_op(ReduceMean((2, 3), in_order=True), x, max_loop_rounds=rounds)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 127, 128, 129, 256, 257, 661])
def test_means_in_order_by_workgroups_that_load_ahead(count: int, precision: str) -> None:
    """Every end of a row in the halves of shared memory; of several dispatches, which go on."""
    op, rng = ReduceMean((2, 3), in_order=True), np.random.default_rng(count)
    check = functools.partial(check_op, kind="discrete", only="together", access=("storage",))
    if precision == "fp16":
        check(op, floats(1, 5, 1, count), precision=precision)
        return
    x = rng.standard_normal((2, 5, 1, count)).astype(np.float32) * np.float32(1e4)
    x[0, 0] = -0.0
    x[1, 1, 0, -1] = np.inf
    check(op, x, tolerance=0)
    check(
        ReduceMean((1, 2), in_order=True), x.transpose(0, 2, 3, 1).copy().repeat(4, 3), tolerance=0
    )
    check(op, x, tolerance=0, max_loop_rounds=3 if count < 64 else 17)


@pytest.mark.parametrize("axis", [1, 2])
def test_sums_of_like_terms(axis: int) -> None:
    """Each step of one running sum would be rounded the same way."""
    terms = (np.arange(240, 300, dtype=np.float32) / 997)[:, None]
    x = np.broadcast_to(terms, (2, 60, 2048)).copy()
    check_op(ReduceSum((axis,)), x if axis == 2 else np.moveaxis(x, 2, 1).copy())
