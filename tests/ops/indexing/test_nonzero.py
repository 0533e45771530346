"""NonZero and Unique: the references by hand, the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import f32, refuses
from vknn.graph import DType
from vknn.ops.indexing.nonzero import NonZero, Unique, UniqueSlices


def some_zeros(dtype: type, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 2, shape).astype(dtype)


@pytest.mark.host
def test_by_hand() -> None:
    x = np.array([[0, 1.5, np.nan], [0, 0, -2]], np.float32)
    (y,) = NonZero().reference(x)
    assert y.dtype == np.int32
    assert y.tolist() == [[0, 1], [0, 2], [1, 2]]
    values, which = Unique().reference(np.array([3, 1, 3, 2, 1, 3], np.int16))
    assert values.dtype == np.int16
    assert values.tolist() == [3, 1, 2]
    assert which.dtype == np.int32
    assert which.tolist() == [0, 1, 0, 2, 1, 0]
    values, which = Unique().reference(np.array([np.nan, 1, np.nan, 1], np.float32))
    assert len(values) == 3
    assert which.tolist() == [0, 1, 2, 1]


@pytest.mark.host
def test_refused() -> None:
    refuses(NonZero(), f32(), match="no axes")
    refuses(NonZero(DType.INT8), f32(2), match="int8")
    refuses(Unique(), f32(2, 2), match="no vector")


@pytest.mark.parametrize("shape", [(1,), (41,), (5, 7), (2, 3, 5), (1, 3, 4, 5), (2, 1, 3, 2, 3)])
def test_nonzero(shape: tuple[int, ...]) -> None:
    check_op(NonZero(), some_zeros(np.float32, *shape))
    check_op(NonZero(), some_zeros(bool, *shape), access=("storage",))
    check_op(NonZero(), some_zeros(np.float32, *shape), access=("texel",), precision="fp16")
    floats = NonZero(DType.FLOAT32)
    check_op(floats, some_zeros(np.float32, *shape))
    check_op(floats, some_zeros(np.int8, *shape), access=("texel",))
    for dtype in (np.float32, np.int8):
        check_op(floats, some_zeros(dtype, *shape), access=("texel",), precision="fp16")


@pytest.mark.parametrize("count", [0, 37])
def test_nothing_or_all(count: int) -> None:
    x = np.zeros((2, 37), np.int8)
    x[:, :count] = 1
    check_op(NonZero(), x)


@pytest.mark.parametrize("count", [1, 7, 50, 333])
def test_unique(count: int) -> None:
    x = np.random.default_rng(count).integers(0, 2 + count // 3, count)
    check_op(Unique(), x.astype(np.int32))
    check_op(Unique(), x.astype(np.uint8), access=("storage",))
    check_op(Unique(), x.astype(np.float32))
    check_op(Unique(), x.astype(np.float32), access=("image",), precision="fp16")


def test_in_several_dispatches() -> None:
    x = np.random.default_rng(0).integers(0, 60, 200).astype(np.int32)
    check_op(Unique(), x, max_loop_rounds=60, access=("storage",))
    check_op(NonZero(), x % 3, max_loop_rounds=60, access=("storage",))


def test_numbers_that_are_none() -> None:
    x = np.array([1, np.nan, 0.0, -0.0, np.nan, 1], np.float32)
    check_op(Unique(), x)
    check_op(NonZero(), x)


@pytest.mark.host
def test_unique_entries_by_hand() -> None:
    x = np.array([[2, 1], [1, 5], [2, 1], [1, 4], [1, 5]], np.int64)
    values, first, which, counts = UniqueSlices().reference(x)
    assert values.tolist() == [[1, 4], [1, 5], [2, 1]]
    assert first.tolist() == [3, 1, 0] and which.tolist() == [2, 1, 2, 0, 1]
    assert counts.tolist() == [1, 2, 2]
    values, first, which, counts = UniqueSlices(sorted=False).reference(x)
    assert values.tolist() == [[2, 1], [1, 5], [1, 4]]
    assert first.tolist() == [0, 1, 3] and which.tolist() == [0, 1, 0, 2, 1]
    assert counts.tolist() == [2, 2, 1]


@pytest.mark.host
def test_unique_entries_of_other_types() -> None:
    x = np.array([np.nan, 1, -np.inf, np.nan, 1], np.float32)
    values, first, _, counts = UniqueSlices().reference(x)
    assert values[:2].tolist() == [-np.inf, 1] and np.isnan(values[2])
    assert first.tolist() == [2, 1, 0] and counts.tolist() == [1, 2, 2]
    words = np.array(["b", "a", "b"], object)
    values, _, which, _ = UniqueSlices().reference(words)
    assert values.tolist() == ["a", "b"] and which.tolist() == [1, 0, 1]
    for shape in ((0,), (0, 3), (4, 0)):
        values, first, which, counts = UniqueSlices().reference(np.zeros(shape, np.float32))
        count = min(1, shape[0])
        assert values.shape == (count, *shape[1:]) and len(first) == len(counts) == count
        assert which.shape == shape[:1]
    refuses(UniqueSlices(), f32(), match="no axes")
