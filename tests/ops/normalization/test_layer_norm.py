"""LayerNormalization on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.normalization import LayerNormalization

RNG = np.random.default_rng(13)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 2 + 3).astype(np.float32)


@pytest.mark.parametrize(
    "shape, axis",
    [
        ((1, 1), -1),
        ((5, 7), -1),
        ((3, 8), -1),
        ((1, 37, 12), -1),
        ((2, 3, 5), 1),
        ((2, 3, 4, 5), -2),
        ((1, 1, 300), 1),
    ],
)
@pytest.mark.parametrize(
    "scale, bias", [(True, True), (True, False), (False, True), (False, False)]
)
def test_layer_normalization(shape: tuple[int, ...], axis: int, scale: bool, bias: bool) -> None:
    inner = shape[axis:]
    vectors = [floats(*inner) if given else None for given in (scale, bias)]
    op = LayerNormalization(axis, 1e-3)
    check_op(op, floats(*shape), *vectors)
    check_op(op, floats(*shape), *vectors, access=("storage",), kind="discrete")
    check_op(
        op, floats(*shape), *vectors, constants=[i + 1 for i in (0, 1) if vectors[i] is not None]
    )


def test_mean_far_from_zero() -> None:
    """The variance is that of the differences, not a difference of squares."""
    x = (1000 + RNG.standard_normal((4, 64))).astype(np.float32)
    check_op(LayerNormalization(-1, 1e-6), x, tolerance=1e-4)


def test_long_rows() -> None:
    """Longer than the loops that llvmpipe runs to their end, if one lane had a row."""
    op = LayerNormalization(-1, 1e-3)
    check_op(op, floats(16, 100_000), tolerance=1e-4, access=("image",))
