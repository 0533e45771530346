"""Entries looked up by indices: the reference by hand, the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import check, f32, i32, refuses
from vknn.errors import ShapeError
from vknn.ops.indexing.gather import Bounded, Gather, GatherND, SearchSorted


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.host
def test_by_hand() -> None:
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    y = np.array([[5, 6], [1, 2], [5, 6]], np.float32)
    check(Gather(), x, ints(2, 0, -1), expected=y)
    check(Gather(-2), x, ints(2, 0, 7), expected=y)
    check(Gather(0, from_end=False), x, ints(2, -1, 3), expected=y)
    columns = np.array([[[2], [1]], [[4], [3]], [[6], [5]]], np.float32)
    check(Gather(1), x, ints(1, 0).reshape(2, 1), expected=columns)
    check(Gather(0), ints(7, 8, 9), np.array(1, np.int32), expected=np.array(8, np.int32))


@pytest.mark.host
def test_zeros_outside_by_hand() -> None:
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    op = Gather(0, from_end=False, outside="zero")
    check(op, x, ints(2, -1, 3, 0), expected=np.array([[5, 6], [0, 0], [0, 0], [1, 2]], np.float32))
    columns = Gather(1, outside="zero")
    y = np.array([[[2], [0]], [[4], [0]], [[6], [0]]], np.float32)
    check(columns, x, ints(-1, -3).reshape(2, 1), expected=y)
    check(op, ints(7, 8), np.array(2, np.int32), expected=np.array(0, np.int32))
    refuses(Gather(0, outside="one"), f32(3, 4), i32(5), match="no mode")


@pytest.mark.parametrize("shape", [(7,), (5, 3), (5, 8)], ids=str)
@pytest.mark.parametrize("from_end", [False, True], ids=["from_start", "from_end"])
def test_zeros_outside_on_the_device(from_end: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    op = Gather(0, from_end, "zero")
    for dtype in (np.float32, np.int32, np.uint8):
        x = (100 * rng.standard_normal(shape)).astype(dtype)
        places = rng.integers(-9, 13, (2, 9)).astype(np.int32)
        check_op(op, x, places, tolerance=0.0, access=("storage", "image"))


@pytest.mark.host
def test_refused() -> None:
    refuses(Gather(2), f32(3, 4), i32(5), match="axis 2")
    refuses(Gather(0), f32(3, 4), f32(5), match="int32")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("from_end", [False, True], ids=["clip", "from_end"])
def test_device(from_end: bool, precision: str) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in (((7,), 0), ((5, 3), 0), ((5, 8), 0), ((2, 5, 4), 1), ((2, 3, 11, 5), -1)):
        x = rng.standard_normal(shape).astype(np.float32)
        for indices in ((3,), (2, 5), (1, 1, 1)):
            places = rng.integers(-9, 13, indices).astype(np.int32)
            op = Gather(axis, from_end)
            check_op(op, x, places, tolerance=0.0, precision=precision, access=("image",))
            if axis == 0:
                check_op(op, places, places, access=("storage", "texel"))


@pytest.mark.host
def test_tuples_by_hand() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    pairs = ints(1, 2, 0, -1, 5, -9).reshape(3, 2)
    check(GatherND(), x, pairs, expected=np.array([[10, 11], [4, 5], [6, 7]], np.float32))
    check(GatherND(from_end=False), x, ints(0, 0, -1).reshape(1, 3), expected=x[0, 0, :1])
    check(GatherND(1), x, ints(2, 0).reshape(2, 1), expected=x[(0, 1), (2, 0)])
    whole = np.broadcast_to(x, (5, 2, 3, 2)).copy()
    check(GatherND(), x, np.zeros((5, 0), np.int32), expected=whole)


@pytest.mark.host
def test_tuples_refused() -> None:
    refuses(GatherND(), f32(3, 4), i32(2, 3), match="do not suit")
    refuses(GatherND(1), f32(3, 4), i32(2, 1), match="batch axes")
    refuses(GatherND(), f32(3, 4), f32(2, 1), match="int32")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_tuples_on_the_device(precision: str) -> None:
    rng = np.random.default_rng(1)
    cases = [
        ((7,), (3, 1), 0),
        ((5, 8), (2, 3, 1), 0),
        ((3, 4, 5), (6, 3), 0),
        ((3, 4, 5), (3, 2, 1), 1),
        ((2, 3, 4, 4), (2, 3, 5, 1), 2),
    ]
    for number, (shape, tuples, batch) in enumerate(cases):
        x = rng.standard_normal(shape).astype(np.float32)
        places = rng.integers(-9, 9, tuples).astype(np.int32)
        op = GatherND(batch, bool(number % 2))
        check_op(op, x, places, tolerance=0.0, precision=precision)
        check_op(op, x.view(np.int32), places, access=("storage",))


@pytest.mark.host
def test_sorted_keys() -> None:
    keys, values = ints(1, 3, 3, 8), ints(0, 1, 3, 4, 8, 9).reshape(2, 3)
    check(SearchSorted(), keys, values, expected=ints(0, 0, 1, 3, 3, 4).reshape(2, 3))
    check(SearchSorted(True), keys, values, expected=ints(0, 1, 3, 3, 4, 4).reshape(2, 3))
    unsorted = np.float32([-1.5, -0.5, 0.25, 0.1, 1.75])  # as by std::lower_bound
    found = np.float32([0.12, 0.3, 9, np.nan])
    check(SearchSorted(), unsorted, found, expected=ints(2, 4, 5, 5))
    refuses(SearchSorted(), i32(2, 2), i32(3), match="the keys are")
    refuses(SearchSorted(), i32(2), f32(3), match="int32")


@pytest.mark.parametrize("right", [False, True], ids=["left", "right"])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_sorted_keys_on_the_device(count: int, right: bool) -> None:
    rng = np.random.default_rng(count)
    keys, values = np.sort(rng.integers(-9, 9, count)), rng.integers(-11, 11, (3, 5))
    for dtype in (np.int32, np.float32):
        check_op(SearchSorted(right), keys.astype(dtype), values.astype(dtype))
        check_op(SearchSorted(right), rng.permutation(keys).astype(dtype), values.astype(dtype))
    halves = (keys.astype(np.float32), values.astype(np.float32))
    check_op(SearchSorted(right), *halves, precision="fp16")


@pytest.mark.host
def test_bounds() -> None:
    pairs = np.array([[0, 2], [1, 0]], np.int64)
    check(Bounded(0, (1, 2)), pairs, expected=pairs)
    with pytest.raises(ShapeError, match="index 2 is out of range: 0 to 1"):
        Bounded(0, (1, 1)).reference(pairs)
    with pytest.raises(ShapeError, match="place 1 is out of range: 0 to 0"):
        Bounded(0, 0, "place").reference(pairs[1])
    refuses(Bounded(0, (1, 2, 3)), i32(2, 2), match="3 bounds")
