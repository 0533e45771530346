"""Softmax and LogSoftmax against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from reference_helper import check, data, f32, i32, refuses
from vknn.ops.reduction import LogSoftmax, Softmax


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((2, 5), 1), ((2, 5), 0), ((1, 3, 5), -2), ((1, 3, 2, 5), 1), ((2, 1, 3, 2, 2), 4)],
)
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    x = data(*shape) * 4
    check(Softmax(axis), x, expected=scipy.special.softmax(x.astype(np.float64), axis).astype("f4"))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1000, 1000, -1000], [0.5, 0.5, 0]),
        ([-np.inf, 0, 0], [0, 0.5, 0.5]),
        ([-np.inf, -np.inf], [np.nan, np.nan]),
        ([np.nan, 0], [np.nan, np.nan]),
        ([5], [1]),
    ],
)
def test_special_values(x: list[float], y: list[float]) -> None:
    check(Softmax(0), np.array(x, np.float32), expected=np.array(y, np.float32))


def test_empty_rows_stay_empty() -> None:
    check(Softmax(1), data(2, 0), expected=data(2, 0))
    check(Softmax(1), data(0, 2), expected=data(0, 2))


def test_infer_refuses() -> None:
    refuses(Softmax(2), f32(1, 3), match="axis 2 is out of range for rank 2")
    refuses(Softmax(0), f32(), match="out of range")
    refuses(Softmax(), i32(3), match="floating point")


def test_log_softmax() -> None:
    x = np.array([[3.0, 4.0]], np.float32)
    (y,) = LogSoftmax(-1).reference(x)
    np.testing.assert_allclose(y, [[-1 - math.log1p(math.exp(-1)), -math.log1p(math.exp(-1))]])
