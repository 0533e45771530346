"""Entries written to places that are data: the reference by hand, the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import check, f32, i32, refuses
from vknn.ops.indexing.scatter import REDUCTIONS, ScatterND


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def places(*tuples: tuple[int, ...]) -> np.ndarray:
    return np.array(tuples, np.int32)


@pytest.mark.host
def test_by_hand() -> None:
    x = ints(1, 2, 3, 4)
    where, new = places((1,), (3,), (1,)), ints(10, 20, 30)
    check(ScatterND(), x, where, new, expected=ints(1, 30, 3, 20))
    check(ScatterND("add"), x, where, new, expected=ints(1, 42, 3, 24))
    check(ScatterND("mul"), x, where, new, expected=ints(1, 600, 3, 80))
    check(ScatterND("max"), x, where, new, expected=ints(1, 30, 3, 20))
    check(ScatterND("min"), x, where, -new, expected=ints(1, -30, 3, -20))


@pytest.mark.host
def test_places_outside_are_left_out() -> None:
    x = np.zeros((2, 3), np.float32)
    new = np.array([1, 2, 3, 4], np.float32)
    where = places((0, 0), (-1, -1), (2, 0), (0, 3))
    y = np.array([[1, 0, 0], [0, 0, 2]], np.float32)
    check(ScatterND(), x, where, new, expected=y)
    y[1, 2] = 0
    check(ScatterND("add", from_end=False), x, where, new, expected=y)


@pytest.mark.host
def test_rows_and_truth() -> None:
    x = np.zeros((3, 2), bool)
    new = np.array([[True, False], [True, True]])
    y = np.array([[False, False], [True, True], [False, False]])
    check(ScatterND("add"), x, places((1,), (1,)), new, expected=y)
    check(
        ScatterND("mul"),
        ~x,
        places((0,), (0,)),
        new,
        expected=np.array([[1, 0], [1, 1], [1, 1]], bool),
    )


@pytest.mark.host
def test_bytes_wrap_around() -> None:
    x, new = np.array([100, 0], np.int8), np.array([100, 100], np.int8)
    check(ScatterND("add"), x, places((0,), (0,)), new, expected=np.array([44, 0], np.int8))


@pytest.mark.host
def test_refused() -> None:
    refuses(ScatterND("sub"), f32(3), i32(1, 1), f32(1), match="no reduction")
    refuses(ScatterND(), f32(3), f32(1, 1), f32(1), match="int32")
    refuses(ScatterND(), f32(3), i32(1, 2), f32(1), match="longer than the axes")
    refuses(ScatterND(), f32(3, 4), i32(2, 1), f32(2, 3), match="do not suit")
    refuses(ScatterND(), f32(3, 4), i32(2, 1), i32(2, 4), match="float32")


CASES = [
    ((7,), (5, 1)),
    ((5, 3), (4, 1)),
    ((5, 8), (2, 3, 1)),
    ((3, 4, 2), (9, 3)),
    ((2, 3, 5), (6, 2)),
    ((1, 1, 1, 3), (2, 4)),
]


def given(
    shape: tuple[int, ...], tuples: tuple[int, ...], dtype: type
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    where = rng.integers(-max(shape), max(shape), tuples).astype(np.int32)
    rows = (*tuples[:-1], *shape[tuples[-1] :])
    if dtype is np.float32:
        return (rng.standard_normal(shape).astype(dtype), where,
                rng.standard_normal(rows).astype(dtype))  # fmt: skip
    high = 2 if dtype is bool else 100
    x, new = (rng.integers(0, high, s).astype(dtype) for s in (shape, rows))
    return x, where, new


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.int32, np.int8, np.uint8, bool], ids=lambda d: np.dtype(d).name
)
def test_device(dtype: type, reduction: str) -> None:
    for number, (shape, tuples) in enumerate(CASES):
        access = ("storage", "texel", "image")[number % 3 :][:1]
        arrays = given(shape, tuples, dtype)
        check_op(ScatterND(reduction, from_end=bool(number % 2)), *arrays, access=access)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_device_in_fp16(reduction: str) -> None:
    for shape, tuples in CASES[:3]:
        check_op(ScatterND(reduction), *given(shape, tuples, np.float32), precision="fp16")


def test_not_a_number_wins() -> None:
    x, where = np.array([1.0, np.nan, 3.0], np.float32), places((0,), (1,), (2,), (2,))
    new = np.array([np.nan, 1.0, 4.0, 2.0], np.float32)
    for reduction in ("max", "min"):
        check_op(ScatterND(reduction), x, where, new)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("most", [9, 40, 300])
def test_many_updates_of_a_row(reduction: str, most: int) -> None:
    rng = np.random.default_rng(6)
    x, where = np.ones((3, 2), np.float32), rng.integers(0, 2, (37, 1)).astype(np.int32)
    new = rng.uniform(0.8, 1.2, (37, 2)).astype(np.float32)
    check_op(ScatterND(reduction), x, where, new, max_loop_rounds=most)
