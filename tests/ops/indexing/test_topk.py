"""ArgMax, ArgMin and TopK on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK

RNG = np.random.default_rng(47)


def few_values(*shape: int) -> np.ndarray:
    """With many equal ones."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 21, 67, 71), (1, 21, 131, 132)])
def test_extremes_of_many_rows(shape: tuple[int, ...]) -> None:
    """A GPU gives each of them one lane, as their elements lie apart."""
    for keepdims in (True, False):
        check_op(ArgMax(1, keepdims), few_values(*shape), access=("storage",), kind="discrete")


@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
@pytest.mark.parametrize("shape", [(7,), (5, 8), (2, 5, 3, 7), (1, 6, 2, 8)])
@pytest.mark.parametrize("last", [False, True])
def test_extremes(kind: type[ArgMax] | type[ArgMin], shape: tuple[int, ...], last: bool) -> None:
    for axis in range(len(shape)):
        x = few_values(*shape)
        check_op(kind(axis, keepdims=True, select_last=last), x, access=("image",))
        check_op(kind(axis - len(shape), False, last), x, access=("storage",))
        check_op(kind(axis, False, last), x.astype(np.int32), access=("storage",), kind="discrete")


def test_extremes_of_long_rows() -> None:
    for shape, axis in (((2, 5000), 1), ((3000, 3), 0)):
        for kind in (ArgMax, ArgMin):
            x = few_values(*shape)
            check_op(kind(axis), x, access=("image",))
            check_op(kind(axis, select_last=True), x, access=("storage",), kind="discrete")


def test_what_is_no_number_comes_first() -> None:
    x = few_values(3, 9)
    x[0, 4], x[1, 2], x[1, 6], x[2] = np.nan, np.nan, np.nan, -np.inf
    for kind in (ArgMax, ArgMin):
        check_op(kind(1), x, access=("storage",))
    for largest in (True, False):
        values, indices = TopK(1, 4, largest).reference(x)
        np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
        check_op(TopK(1, 4, largest), x, access=("storage",))


def test_what_is_no_number_comes_last() -> None:
    nan, inf = np.nan, np.inf
    x = np.float32([[nan, 7, nan, 9], [nan, -inf, inf, 3], [nan, nan, nan, nan], [2, nan, 2, 2]])
    for op, expected in (
        (ArgMax(1, False, nan_last=True), [3, 2, 0, 0]),
        (ArgMin(1, False, nan_last=True), [1, 1, 0, 0]),
        (ArgMax(1, False, True, True), [3, 2, 3, 3]),
    ):
        assert op.reference(x)[0].tolist() == expected
        check_op(op, x, access=("storage",), kind="discrete")
        check_op(op, np.repeat(x, 40, 1), access=("image",), kind="discrete")


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize(
    "shape, axis, k",
    [((7,), 0, 7), ((5, 8), 1, 3), ((5, 8), 0, 1), ((2, 5, 3, 7), 1, 4), ((3, 65), -1, 65)],
)
def test_top_k(shape: tuple[int, ...], axis: int, k: int, largest: bool, order: bool) -> None:
    op = TopK(axis, k, largest, order)
    check_op(op, few_values(*shape), access=("image",))
    check_op(op, few_values(*shape).astype(np.int32), access=("storage",), kind="discrete")


def test_top_k_of_long_rows() -> None:
    check_op(TopK(1, 5), few_values(2, 3001), access=("storage",))
    check_op(TopK(0, 100, largest=False), few_values(1500, 2), access=("storage",))
    check_op(TopK(0, 3), few_values(500), access=("storage",), max_loop_rounds=90)


@pytest.mark.parametrize(
    "shape, axis", [((33,), 0), ((2, 65, 3), 1), ((129, 4), 0), ((3, 1000), 1)]
)
def test_merge_sort(shape: tuple[int, ...], axis: int) -> None:
    size = shape[axis]
    x = few_values(*shape)
    x[(1,) * len(shape)] = np.nan
    for largest in (True, False):
        for k in (size, size // 2, 1):
            check_op(TopK(axis, k, largest), x, access=("storage",), only="merge")
        order = TopK(axis, size // 3, largest, sorted=False)
        check_op(order, few_values(*shape).astype(np.int32), access=("storage",), only="merge")
    wide = RNG.standard_normal(shape).astype(np.float32)
    check_op(TopK(axis, size), wide, access=("storage",), only="merge", max_loop_rounds=40)
    check_op(TopK(axis, size), wide, access=("storage",), only="merge", precision="fp16")


def test_in_fp16() -> None:
    check_op(ArgMax(1), few_values(2, 5, 3), precision="fp16")
    check_op(ArgMin(2), few_values(2, 5, 3), precision="fp16")
    check_op(TopK(1, 3), few_values(2, 5, 3), precision="fp16")
    check_op(TopK(1, 3, sorted=False), few_values(2, 5, 3), precision="fp16")
