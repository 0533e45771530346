"""Regions whose corners or sizes float32 has no numbers for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_regions_without_a_number(number: float) -> None:
    rois = np.array([[0, number, 3, 4], [1, 1, 3, 4], [0, 0, number, number]], np.float32)
    x = np.random.default_rng(1).standard_normal((1, 3, 5, 7)).astype(np.float32)
    check_op(RoiAlign((2, 3), clipped=True), x, rois)


@pytest.mark.parametrize("far", [1e30, 1e37, 1e38, 3e38])
@pytest.mark.parametrize(
    "op",
    [
        RoiAlign((2, 3), clipped=True),
        RoiAlign((3, 2), 0.5, aligned=True, clipped=True),
        RoiAlign((3, 3), sampling_ratio=3, clipped=True),
        RoiAlign((3, 7), aligned=True),
        RoiAlign((3, 2), 0.5),
    ],
    ids=str,
)
def test_regions_of_1e38_pixels(op: RoiAlign, far: float) -> None:
    """Their samples stay at the edge; widths that are infinite make no index."""
    corners = [
        [0, 0, far, 3], [2, 1, far, far], [-far, -far, 3, 4], [-far, -far, far, far],
        [1, -far, 5, far], [far, far, far, far], [0.5, 0.25, far, 6],
        [-far, -far, -far, -far],
    ]  # fmt: skip
    x = np.random.default_rng(1).standard_normal((1, 3, 5, 7)).astype(np.float32)
    rois = np.array(corners, np.float32)
    assert np.isfinite(op.reference(x, rois)[0]).all()
    check_op(op, x, rois)


@pytest.mark.parametrize("scale", [1.0, 2.0, 3e38])
@pytest.mark.parametrize("kind", [MaxRoiPool, PositionSensitiveRoiPool])
def test_bins_that_are_beyond_float32(kind: type, scale: float) -> None:
    """Where a difference of corners is no number, a bin is empty."""
    far = np.float32(2e38)
    corners = [[0, 0, far, 3], [far, far, far, far], [-far, 0, far, 4], [1, 1, 2, 2], [0, 0, 0, 0]]
    x = np.random.default_rng(1).standard_normal((1, 6, 5, 7)).astype(np.float32)
    check_op(kind((2, 3), scale), x, np.array(corners, np.float32))


@pytest.mark.host
def test_scales_that_are_no_number_are_refused() -> None:
    for scale in (np.nan, np.inf):
        with pytest.raises(ShapeError, match="spatial_scale"):
            MaxRoiPool((2, 2), scale).infer(TensorType((1, 3, 5, 7)), TensorType((2, 4)))
