"""Cells of Ray's own tensors: those of one shape are read together, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vknn.scale.records import cells_of

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def tensors() -> Any:
    return pytest.importorskip("ray.data.extensions").ArrowTensorArray


def same(found: list[Any], expected: Any) -> None:
    assert len(found) == len(expected)
    for cell, array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(cell, array)
        assert (cell.dtype, cell.shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_tensors_of_one_shape(tensors: Any, dtype: str) -> None:
    values = (np.arange(70).reshape(7, 2, 5) % 3).astype(dtype)
    whole = tensors.from_numpy(values)
    same(list(cells_of(whole)), values)
    same(list(cells_of(whole[2:6])), values[2:6])
    same(
        list(cells_of(pa.chunked_array([whole[3:], whole[:0], whole[:2]]))),
        values[[3, 4, 5, 6, 0, 1]],
    )
    assert list(cells_of(whole[:0])) == []


def test_their_numbers_are_not_copied(tensors: Any) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    column = tensors.from_numpy(values)
    address = column.storage.values.buffers()[1].address
    found = [cell.__array_interface__["data"][0] for cell in cells_of(column[1:])]
    assert found == [address + 24 * number for number in (1, 2, 3)]


def test_tensors_with_nulls_and_of_different_shapes(tensors: Any) -> None:
    type_ = tensors.from_numpy(np.ones((1, 3))).type
    storage = pa.array([None, [1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]], type_.storage_type)
    column = pa.ExtensionArray.from_storage(type_, storage)
    first, second, third, last = cells_of(column)
    assert first is None and third is None
    same([second, last], np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    same(list(cells_of(column[3:])), np.array([[4.0, 5.0, 6.0]]))
    mixed = [np.zeros((2, 3)), np.ones((3, 1))]
    same(list(cells_of(tensors.from_numpy(mixed))), mixed)
