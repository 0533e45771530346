"""Windows along one axis: the reference against windows written out, the device against it."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import check, data, f32, i32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.pooling.reduce_window import FUNCTIONS, ReduceWindow

OPS = [
    ReduceWindow("add", 0, 3),
    ReduceWindow("mul", 0, 2, 3),
    ReduceWindow("max", 0, 3, 2, (1, 2)),
    ReduceWindow("min", 0, 2, 1, (2, 3), base_dilation=3, dilation=2),
    ReduceWindow("add", 0, 3, 1, (-2, 4), base_dilation=2),
    ReduceWindow("max", 0, 4, 2, (1, -3), base_dilation=3, dilation=3),
    ReduceWindow("add", 0, 11, 1, (10, 0)),
    ReduceWindow("min", 0, 20, 3, (9, 9), dilation=1),
    ReduceWindow("max", 0, 2, 1, (5, 5)),
]


def naive(op: ReduceWindow, x: np.ndarray) -> np.ndarray:
    """A vector's places as a list, None where there is no element, and its windows."""
    places: list[Any] = []
    for number, element in enumerate(x):
        places += [None] * (op.base_dilation - 1) * (number > 0) + [element]
    low, high = op.pads
    places = [None] * low + places if low >= 0 else places[-low:]
    places = places + [None] * high if high >= 0 else places[:high]
    found = []
    for start in range(0, len(places) - op.extent + 1, op.stride):
        window = places[start : start + op.extent : op.dilation]
        there = [element for element in window if element is not None]
        none = x.dtype.type(op.neutral(DType.of(x)))
        found.append(functools.reduce(FUNCTIONS[op.function], there, none))
    return np.array(found, x.dtype)


@pytest.mark.host
@pytest.mark.parametrize("op", OPS, ids=str)
def test_written_out(op: ReduceWindow) -> None:
    for dtype in ("float32", "int32", "int8", "uint8", "int64"):
        x = data(11, dtype=dtype)
        with np.errstate(over="ignore"):
            check(op, x, expected=naive(op, x))
            rows = np.stack([x, x[::-1]], axis=1)
            both = np.stack([naive(op, x), naive(op, x[::-1])], axis=1)
            check(op, rows, expected=both)


@pytest.mark.host
def test_of_bool() -> None:
    x = np.array([True, False, False, True, True])
    check(ReduceWindow("max", 0, 2), x, expected=np.array([True, False, True, True]))
    check(ReduceWindow("min", -1, 2), x, expected=np.array([False, False, False, True]))
    refuses(ReduceWindow("add", 0, 2), TensorType((5,), DType.BOOL), match="no add of")


@pytest.mark.host
def test_nothing_there() -> None:
    x = np.zeros((2, 0), np.float32)
    check(ReduceWindow("max", 1, 2, pads=(1, 2)), x, expected=np.full((2, 2), -np.inf, np.float32))
    check(ReduceWindow("add", 1, 2), x, expected=np.zeros((2, 0), np.float32))
    nan = np.array([1, np.nan, 2, 3], np.float32)
    y = np.array([np.nan, np.nan, 3], np.float32)
    check(ReduceWindow("max", 0, 2), nan, expected=y)


@pytest.mark.host
def test_refused() -> None:
    refuses(ReduceWindow("or", 0, 2), i32(5), match="no function 'or'")
    refuses(ReduceWindow("add", 1, 2), i32(5), match="axis 1")
    refuses(ReduceWindow("add", 0, 0), i32(5), match="below 1")
    refuses(ReduceWindow("add", 0, 2, base_dilation=1 << 30), f32(5), match="places along an axis")
    refuses(ReduceWindow("add", 0, 2, pads=(1 << 31, -(1 << 31))), f32(5), match="places")


@pytest.mark.host
def test_far_windows_take_no_time() -> None:
    far = 1 << 29
    op = ReduceWindow("add", 0, far, far, (far, far))
    begin = time.perf_counter()
    check(op, np.float32([1, 2, 4]), expected=np.float32([0, 7]))
    assert time.perf_counter() - begin < 1


@pytest.mark.host
def test_few_long_windows_take_no_time() -> None:
    size = 1 << 18
    x = np.arange(2 * (size + 2), dtype=np.int32).reshape(size + 2, 2) % 7
    op = ReduceWindow("add", 0, size, dilation=1, pads=(-1, 1))
    expected = np.stack([x[1 : size + 1].sum(0), x[2:].sum(0), x[3:].sum(0)]).astype(np.int32)
    begin = time.perf_counter()
    check(op, x, expected=expected[: op.count(size + 2)])
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("inner", [(), (3,), (2, 4)], ids=str)
def test_device(op: ReduceWindow, inner: tuple[int, ...]) -> None:
    for dtype in ("float32", "int32", "int8", "uint8", "int16"):
        x = data(11, *inner, dtype=dtype)
        check_op(op, x, access=("storage", "image"))
    check_op(op, data(11, *inner), precision="fp16", access=("storage",))


def test_bool_and_nan_on_the_device() -> None:
    x = np.array([[1, np.nan, -np.inf, 3, np.inf]], np.float32)
    for function in ("max", "min", "add"):
        check_op(ReduceWindow(function, 1, 2, pads=(2, 2)), x, access=("storage",))
    bools = np.array([True, False, False, True, True])
    for function in ("max", "min"):
        check_op(ReduceWindow(function, 0, 2, pads=(2, 2)), bools, access=("storage",))
