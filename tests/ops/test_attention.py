"""Attention on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.attention import Attention

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "batch, heads, queries, keys, depth, value_depth",
    [
        (1, 1, 1, 1, 1, 1),
        (1, 3, 5, 7, 4, 8),
        (2, 2, 3, 8, 8, 4),
        (2, 3, 7, 5, 3, 5),
        (1, 2, 17, 19, 16, 16),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_sizes(
    batch: int, heads: int, queries: int, keys: int, depth: int, value_depth: int, masked: bool
) -> None:
    q, k = floats(batch, queries, heads * depth), floats(batch, keys, heads * depth)
    v = floats(batch, keys, heads * value_depth)
    mask = floats(batch, heads, queries, keys) if masked else None
    op = Attention(heads, depth**-0.5)
    check_op(op, q, k, v, mask)
    check_op(op, q, k, v, mask, access=("storage",), kind="discrete")


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (3, 5, 7), (2, 1, 1, 7), (1, 3, 5, 1), (2, 3, 1, 7)]
)
def test_mask_broadcasts(shape: tuple[int, ...]) -> None:
    q, k, v = floats(2, 5, 12), floats(2, 7, 12), floats(2, 7, 12)
    check_op(Attention(3, 0.5), q, k, v, floats(*shape), constants=(3,), access=("image",))


def test_masked_out_keys() -> None:
    mask = np.where(np.tri(6, dtype=bool), 0, -np.inf).astype(np.float32)
    check_op(Attention(2, 0.5), floats(1, 6, 8), floats(1, 6, 8), floats(1, 6, 8), mask)


def test_large_scores_do_not_overflow() -> None:
    q, k = 100 * floats(1, 5, 8), 100 * floats(1, 9, 8)
    check_op(Attention(1, 1.0), q, k, floats(1, 9, 8), tolerance=1e-3)


@pytest.mark.parametrize("depth", [3, 4])
def test_more_keys_than_the_loops_of_a_lane_take(depth: int) -> None:
    """Scalars stay on the host beyond 65,535 keys, vec4s beyond four times as many."""
    for keys, host in ((50_000, False), (70_000, depth == 3), (270_000, True)):
        q, k, v = floats(1, 2, depth), floats(1, keys, depth), floats(1, keys, depth)
        check_op(Attention(1, 0.5), q, k, v, host=host, tolerance=1e-4, access=("storage",))
