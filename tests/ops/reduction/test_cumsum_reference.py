"""CumSum and CumProd by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.ops.reduction import CumProd, CumSum


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [4, 10, 17]),
        (True, False, [0, 4, 10]),
        (False, True, [17, 13, 7]),
        (True, True, [13, 7, 0]),
    ],
)
def test_cumsum(exclusive: bool, reverse: bool, expected: list[int]) -> None:
    x = np.array([4, 6, 7], np.int32)
    np.testing.assert_array_equal(CumSum(0, exclusive, reverse).reference(x)[0], expected)
    column = x.reshape(1, 3, 1).astype(np.float32)
    (y,) = CumSum(-2, exclusive, reverse).reference(column)
    np.testing.assert_array_equal(y.ravel(), expected)


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [4, 24, 168]),
        (True, False, [1, 4, 24]),
        (False, True, [168, 42, 7]),
        (True, True, [42, 7, 1]),
    ],
)
def test_cumprod(exclusive: bool, reverse: bool, expected: list[int]) -> None:
    x = np.array([4, 6, 7], np.int64)
    np.testing.assert_array_equal(CumProd(0, exclusive, reverse).reference(x)[0], expected)
    wrapped = CumProd(0).reference(np.array([1 << 20, 1 << 20], np.int32))[0]
    np.testing.assert_array_equal(wrapped, [1 << 20, 0])
