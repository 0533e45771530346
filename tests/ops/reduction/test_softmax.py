"""Softmax and LogSoftmax on the device, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph

from vknn.lowering import Layout, LoweringOptions
from vknn.ops.reduction import LogSoftmax, Softmax

RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 3).astype(np.float32)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_every_axis(axis: int, channels: int) -> None:
    check_op(Softmax(axis), normal(2, channels, 3, 7), tolerance=1e-6)


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        (-1, (7,)),
        (-1, (1, 1000)),
        (-1, (1, 1001)),
        (1, (1, 1000, 1, 1)),
        (1, (1, 21, 9, 11)),
        (1, (1, 5, 8)),
        (2, (1, 5, 3, 8)),
        (-1, (37, 16)),
        (-1, (37, 67)),
        (2, (1, 3, 67, 2, 3)),
    ],
)
def test_lengths_and_places(axis: int, shape: tuple[int, ...]) -> None:
    check_op(Softmax(axis), normal(*shape), tolerance=1e-6)


def test_large_and_infinite_values() -> None:
    x = np.array([[1e4, 1e4 + 1, -1e4, -np.inf], [3e38, -3e38, 0, 1]], np.float32)
    check_op(Softmax(-1), x, tolerance=1e-6)
    check_op(Softmax(1), x, tolerance=1e-6)


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize(
    ("axis", "shape"),
    [(1, (1, 1000, 1, 1)), (1, (2, 37, 3, 5)), (-1, (3, 129)), (-1, (70, 6)), (2, (1, 5, 9, 3))],
)
def test_workgroups_of_a_gpu(axis: int, shape: tuple[int, ...], layout: Layout) -> None:
    """Rows shared by several lanes, as on devices that are no CPU."""
    x = normal(*shape)
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(Softmax(axis), [x])
    actual = run_graph(graph, limits, LoweringOptions(layout=layout), {"x0": x})["y0"]
    np.testing.assert_allclose(actual, Softmax(axis).reference(x)[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        (-1, (17, 90_001)),
        (-1, (2, 90_004)),
        (1, (1, 90_000, 1, 1)),
        (1, (1, 30_000, 4)),
        (1, (1, 30_000, 3)),
        (2, (1, 5, 30_000)),
        (0, (30_000, 4)),
    ],
)
def test_rows_longer_than_the_loops_of_a_lane(axis: int, shape: tuple[int, ...]) -> None:
    check_op(Softmax(axis), normal(*shape), tolerance=1e-4, access=("storage",))
    check_op(Softmax(axis), normal(*shape), tolerance=1e-4, access=("storage",), kind="discrete")


def test_rows_that_no_workgroup_can_take() -> None:
    check_op(Softmax(-1), normal(2, 40_000), host=True, max_loop_rounds=30)


@pytest.mark.parametrize("shape", [(7,), (5, 8), (3, 5, 7), (2, 5, 3, 7), (1, 6, 2, 8)])
def test_log_softmax(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        check_op(LogSoftmax(axis), normal(*shape), access=("image",))
        check_op(LogSoftmax(axis), normal(*shape), access=("storage",), kind="discrete")


def test_log_softmax_in_fp16() -> None:
    for shape in ((2, 8, 3, 5), (3, 7)):
        check_op(LogSoftmax(1), normal(*shape) / 3, precision="fp16")
