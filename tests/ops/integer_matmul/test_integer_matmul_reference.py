"""Products of integers against sums of Python's numbers, which never overflow."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.integer_matmul import IntegerProduct


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_sums_wrap_around(dtype: str) -> None:
    info = np.iinfo(dtype)
    random = np.random.default_rng(5)
    a = random.integers(info.min, info.max, (2, 3, 5), dtype)
    b = random.integers(info.min, info.max, (5, 7), dtype)
    (found,) = IntegerProduct().reference(a, b)
    span = info.max - info.min + 1
    for place in np.ndindex(2, 3, 7):
        i, j, k = place
        total = sum(int(a[i, j, n]) * int(b[n, k]) for n in range(5))
        assert int(found[place]) == (total - info.min) % span + info.min
    assert found.dtype == np.dtype(dtype)


def test_floats_are_refused() -> None:
    with pytest.raises(ShapeError, match="wants integers"):
        IntegerProduct().infer(TensorType((2, 3)), TensorType((3, 2), DType.INT32))
