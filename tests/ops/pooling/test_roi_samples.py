"""RoiAlign of many samples a bin: what memory they take, and which of them count."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.pooling.roi_pooling import RoiAlign

RNG = np.random.default_rng(31)


@pytest.mark.host
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_many_samples_take_little_memory(mode: str) -> None:
    """A few bytes of a file say how many samples a bin has."""
    x, rois = RNG.random((1, 2, 5, 7), np.float32), np.float32([[0, 0, 6, 4]])
    few = RoiAlign((3, 2), sampling_ratio=50, mode=mode).reference(x, rois)[0]
    tracemalloc.start()
    try:
        (many,) = RoiAlign((3, 2), sampling_ratio=50_000, mode=mode).reference(x, rois)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(many, few, 0.1)
    assert peak < 16 << 20
    with pytest.raises(ShapeError, match="sampling_ratio 2000000000, not 0 to 16777216"):
        RoiAlign((3, 2), sampling_ratio=2_000_000_000).infer(*map(TensorType.of, (x, rois)))


@pytest.mark.host
def test_the_largest_product_is_of_extreme_weights() -> None:
    """Against all products, with elements of both signs and infinities."""
    x = RNG.standard_normal((1, 3, 5, 7)).astype(np.float32)
    x[0, 1, 2, 3], x[0, 2, 1, 1] = np.inf, -np.inf
    rois = np.float32([[0.5, 0.25, 6, 4], [-3, -2, 9, 8]])
    op = RoiAlign((3, 2), sampling_ratio=4, mode="max")
    with np.errstate(all="ignore"):
        for row, corners in enumerate(rois.reshape(2, 2, 2)):
            bins = [
                list(op._neighbours(corners[:, 1 - a], op.output_size[a], x.shape[2 + a]))
                for a in (0, 1)
            ]
            found = op.reference(x, rois[row : row + 1])[0][0]
            np.testing.assert_array_equal(found, op._largest(x[0], *bins).astype(np.float32))
