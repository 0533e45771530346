"""ArgMax, ArgMin and TopK by hand and by sorting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK

RNG = np.random.default_rng(59)


def test_arg_max_and_arg_min() -> None:
    x = np.array([[3, 1, 3, 1]], np.float32)
    assert [int(k(1).reference(x)[0][0, 0]) for k in (ArgMax, ArgMin)] == [0, 1]
    assert [int(k(1, False, True).reference(x)[0][0]) for k in (ArgMax, ArgMin)] == [2, 3]
    assert ArgMax(0, False).infer(TensorType((3, 4))) == (TensorType((4,), DType.INT32),)
    with pytest.raises(ShapeError):
        ArgMin(1).infer(TensorType((3, 0)))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_top_k(largest: bool, in_order: bool) -> None:
    x = RNG.integers(-2, 3, (3, 9, 2)).astype(np.float32)
    values, places = TopK(1, 4, largest, in_order).reference(x)
    for i, j in itertools.product(range(3), range(2)):
        row = x[i, :, j].tolist()
        best = sorted(range(9), key=lambda n: (-row[n] if largest else row[n], n))[:4]
        best = best if in_order else sorted(best)
        assert places[i, :, j].tolist() == best
        assert values[i, :, j].tolist() == [row[n] for n in best]
    with pytest.raises(ShapeError, match="shorter"):
        TopK(1, 10).infer(TensorType((3, 9, 2)))
