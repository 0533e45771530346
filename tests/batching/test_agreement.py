"""Agreement of results: the same bits, and near to one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vknn.batching.agreement import are_near, same_bits, shape_of

NAN, INF = float("nan"), float("inf")


def floats(*numbers: float) -> np.ndarray:
    return np.float32(numbers)


@pytest.mark.parametrize(
    "one, other, near",
    [
        (floats(1, 2), floats(1, 2), True),
        (floats(1.019, 2), floats(1, 2), True),  # of the range, not of the element
        (floats(1.021, 2), floats(1, 2), False),
        (floats(0, 0), floats(0, 0), True),
        (floats(1e-9, 0), floats(0, 0), False),
        (floats(NAN, 2), floats(NAN, 2), True),
        (floats(NAN, 2), floats(1, 2), False),
        (floats(1, 2), floats(NAN, 2), False),
        (floats(INF, 2), floats(INF, 2.01), True),
        (floats(INF, 2), floats(-INF, 2), False),
        (floats(INF, 2), floats(2, 2), False),
        (floats(1, 2), floats(1), False),
        (floats(1, 2), np.float64([1, 2]), False),
        (np.uint8([3, 255]), np.uint8([4, 254]), True),
        (np.uint8([3, 0]), np.uint8([6, 0]), False),
        (np.uint8([0]), np.uint8([255]), False),
        (np.array([True]), np.array([False]), False),
        (floats(), floats(), True),
        ({"a": floats(1)}, {"a": floats(1)}, True),
        ({"a": floats(1)}, {"a": floats(2)}, False),
        ({"a": floats(1)}, {"b": floats(1)}, False),
        ([floats(1), floats(2)], [floats(1), floats(2)], True),
        ([floats(1)], [floats(1), floats(2)], False),
        ("cat", "dog", True),  # scores near to each other
        (np.float32(1), np.float32(1.001), True),
    ],
)
def test_what_is_near(one: Any, other: Any, near: bool) -> None:
    assert are_near(one, other, 0.01) is near


@pytest.mark.parametrize(
    "one, other, same",
    [
        (floats(1, NAN), floats(1, NAN), True),
        (floats(0), floats(-0.0), False),
        (floats(1), np.nextafter(floats(1), floats(2)), False),
        (floats(1), np.float64([1]), False),
        (floats(1, 2), floats(1, 2)[None], False),
        ({"a": [floats(1)]}, {"a": [floats(1)]}, True),
        ({"a": [floats(1)]}, {"a": [floats(1), floats(1)]}, False),
        ("cat", "dog", False),
        (np.array(["cat"], object), np.array(["cat"], object), True),
    ],
)
def test_the_same_bits(one: Any, other: Any, same: bool) -> None:
    assert same_bits(one, other) is same


def test_shapes() -> None:
    """Names, shapes and element types; the order of names does not count."""
    one = {"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.int32)}
    assert shape_of(one) == shape_of({"b": np.ones(4, np.int32), "a": one["a"] + 1})
    for other in (np.zeros((3, 2), np.float32), np.zeros((2, 3)), np.zeros(6, np.float32)):
        assert shape_of(one) != shape_of({**one, "a": other})
