"""Tables of sorted keys."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.indexing.hash_table import FindKeys, SortKeys


def texts(*items: str) -> np.ndarray:
    """An array of strings."""
    return np.array([item.encode() for item in items], object)


@pytest.mark.parametrize(
    ("keys", "values", "sorted_keys", "sorted_values"),
    [
        (np.int64([3, -1, 3]), texts("a", "b", "c"), [-1, 3], [b"b", b"a"]),
        (texts("z", "", "z"), np.int64([1, 2, 3]), [b"", b"z"], [2, 1]),
        (np.int64([]), texts(), [], []),
        (np.int64([[2], [1]]), texts("a", "b").reshape(2, 1), [1, 2], [b"b", b"a"]),
    ],
)
def test_keys_are_sorted_and_the_first_of_equal_ones_counts(
    keys: np.ndarray, values: np.ndarray, sorted_keys: list[object], sorted_values: list[object]
) -> None:
    found = SortKeys().reference(keys, values)
    assert [a.tolist() for a in found] == [sorted_keys, sorted_values]
    assert [a.dtype for a in found] == [keys.dtype, values.dtype]


def test_what_is_not_there_is_the_default() -> None:
    table = np.int64([-5, 0, 7]), texts("a", "b", "c")
    wanted = np.int64([[7, 1], [-5, 2**62]])
    (found,) = FindKeys().reference(*table, wanted, texts("?"))
    assert found.tolist() == [[b"c", b"?"], [b"a", b"?"]]
    back = texts("", "a", "b"), np.int64([1, 2, 3])
    (numbers,) = FindKeys().reference(*back, texts("b", "c", "", "B"), np.int64([-1]))
    assert numbers.tolist() == [3, -1, 1, -1]
    assert numbers.dtype == np.int64
    (none,) = FindKeys().reference(np.int64([]), texts(), np.int64([1]), texts("?"))
    assert none.tolist() == [b"?"]


def test_a_large_table_is_searched() -> None:
    rng = np.random.default_rng(0)
    keys, first = np.unique(rng.integers(0, 1 << 40, 200_000), return_index=True)
    values = first.astype(np.int64).astype(str).astype("S").astype(object)
    wanted = np.concatenate([keys[::2], keys[::2] + (1 << 41)])
    (found,) = FindKeys().reference(keys, values, wanted, texts("?"))
    half = keys[::2].size
    assert (found[:half] == values[::2]).all()
    assert (found[half:] == b"?").all()


@pytest.mark.parametrize(
    "types",
    [
        ("int64", "string", "string", "string"),
        ("int64", "string", "int64", "int64"),
    ],
)
def test_types_that_do_not_fit(types: tuple[str, ...]) -> None:
    shapes = (3,), (3,), (2,), (1,)
    given = [TensorType(s, DType(t)) for s, t in zip(shapes, types, strict=True)]
    with pytest.raises(ShapeError, match="FindKeys"):
        FindKeys().infer(*given)


def test_lengths_that_do_not_fit() -> None:
    keys, values = TensorType((3,), DType.INT64), TensorType((2,), DType.STRING)
    with pytest.raises(ShapeError, match="SortKeys: keys"):
        SortKeys().infer(keys, values)
    default = TensorType((2,), DType.STRING)
    table = TensorType((3,), DType.INT64), TensorType((3,), DType.STRING)
    with pytest.raises(ShapeError, match="not one element"):
        FindKeys().infer(*table, keys, default)
