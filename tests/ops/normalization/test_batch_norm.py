"""BatchNormalization and LRN on the device against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.normalization import LRN, BatchNormalization


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 5, 7, 9), (3, 7), (2, 3, 11), (1, 6, 2, 3, 4), (1, 4, 1, 1)])
def test_batch_normalization(shape: tuple[int, ...]) -> None:
    scale, bias, mean = random(shape[1]), random(shape[1], 1)[:, 0], random(shape[1])
    var = np.abs(random(shape[1])) + 0.1
    op = BatchNormalization(epsilon=1e-3)
    check_op(op, random(*shape), scale, bias, mean, var, constants=(1, 2, 3, 4))


def test_batch_normalization_with_run_time_statistics_runs_on_the_host() -> None:
    vector = np.ones(3, np.float32)
    check_op(BatchNormalization(), random(1, 3, 2, 2), *[vector] * 4, host=True)


@pytest.mark.parametrize(
    ("which", "number", "host"),
    [
        (0, -np.inf, True), (0, np.nan, True), (1, np.inf, True), (2, np.inf, True),
        (2, 3e38, True), (2, 1e30, False), (3, -1.0, True), (3, np.inf, False), (3, 3e38, False),
    ],
)  # fmt: skip
def test_batch_normalization_by_numbers_without_a_float32(
    which: int, number: float, host: bool
) -> None:
    """x * factor + shift would be NaN where (x - mean) * factor + bias is infinite."""
    vectors = [random(5), random(5), random(5), np.abs(random(5)) + 0.1]
    vectors[0][3], vectors[3][3] = 1e4, 1.0
    vectors[which][3] = number
    check_op(BatchNormalization(), random(2, 5, 3), *vectors, constants=(1, 2, 3, 4), host=host)


@pytest.mark.parametrize(
    "op",
    [
        LRN((1,), (2,), (2,), alpha=0.1, beta=0.75, bias=1.0),
        LRN((1,), (1,), (3,), alpha=0.3, beta=0.5, bias=2.0),
        LRN((-3,), (9,), (9,), alpha=0.1, beta=1.5, bias=0.5),
        LRN((2, 3), (1, 2), (1, 1), alpha=0.2, beta=0.75, bias=1.0),
        LRN((1, 3), (1, 1), (2, 1), alpha=0.2, beta=0.6, bias=1.0),
    ],
    ids=str,
)
def test_lrn(op: LRN) -> None:
    check_op(op, 3 * random(2, 11, 5, 6))


def test_lrn_of_other_ranks() -> None:
    check_op(LRN((1,), (1,), (1,)), random(3, 6))
    check_op(LRN((1, 2), (1, 1), (1, 1)), random(1, 6, 3, 4, 2))
    check_op(LRN((0,), (1,), (1,)), random(3, 6), host=True)


def test_windows_larger_than_the_loops_of_a_lane() -> None:
    op, x = LRN((2, 3), (2, 2), (2, 2), 0.01), random(1, 6, 9, 11)
    check_op(op, x, access=("storage",), max_loop_rounds=50)
    check_op(op, x, host=True, max_loop_rounds=30)
    check_op(LRN((2, 3), (150, 150), (150, 150), 0.01), random(1, 2, 300, 300), host=True)


def test_windows_far_beyond_the_input() -> None:
    check_op(LRN((1, 3), (1 << 40, 1), (2, 1 << 33), 0.01), random(1, 6, 2, 5))
