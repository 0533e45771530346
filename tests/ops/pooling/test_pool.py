"""Pooling on the device: every kernel and access mode against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


WINDOWS = {
    "3x3 stride 2": ((3, 3), (2, 2), (0, 0, 0, 0), (1, 5, 9, 11)),
    "padded": ((3, 2), (1, 1), (1, 0, 1, 1), (2, 3, 4, 7)),
    "uneven pads": ((3, 3), (2, 2), (0, 1, 1, 2), (1, 6, 7, 8)),
    "1x1": ((1, 1), (1, 1), (0, 0, 0, 0), (1, 4, 3, 5)),
    "wide": ((2, 11), (1, 2), (0, 3, 0, 4), (1, 3, 5, 13)),
    "far apart": ((2, 2), (7, 9), (1, 1, 1, 1), (1, 3, 15, 19)),
    "1-D": ((3,), (2,), (1, 1), (1, 5, 9)),
    "3-D": ((2, 3, 2), (1, 2, 2), (1, 1, 0, 0, 1, 1), (1, 3, 4, 5, 6)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_max_pool(name: str) -> None:
    kernel, strides, pads, x = WINDOWS[name]
    check_op(MaxPool(kernel, strides, pads), random(*x) - 3)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_average_pool(name: str, count_include_pad: bool) -> None:
    kernel, strides, pads, x = WINDOWS[name]
    check_op(AveragePool(kernel, strides, pads, count_include_pad), random(*x))


def test_max_pool_with_dilation() -> None:
    check_op(MaxPool((2, 3), (1, 2), (1, 2, 1, 2), (2, 3)), random(1, 5, 7, 12))


def test_windows_wholly_in_the_padding() -> None:
    x = random(1, 3, 3, 3)
    check_op(AveragePool((2, 2), (1, 1), (2, 2, 2, 2)), x)
    check_op(AveragePool((2, 2), (1, 1), (2, 2, 2, 2), True), x)
    check_op(MaxPool((2, 2), (1, 1), (2, 2, 2, 2)), x, tolerance=0)


def test_max_pool_of_special_values() -> None:
    x = random(1, 3, 6, 6)
    x[0, 0, 2, 2], x[0, 1, 3, 3], x[0, 2] = np.nan, np.inf, -np.inf
    check_op(MaxPool((3, 3), (1, 1), (0, 0, 0, 0)), x)


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_max_pool_of_integers(dtype: type) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (1, 5, 6, 7)).astype(dtype)
    check_op(MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), x)


@pytest.mark.parametrize(
    "shape", [(1, 5, 7, 9), (3, 6, 1, 1), (1, 3, 40, 41), (2, 5, 13), (1, 2, 3, 4, 5)]
)
@pytest.mark.parametrize("op", [GlobalAveragePool(), GlobalMaxPool()], ids=["average", "max"])
def test_global(op, shape: tuple[int, ...]) -> None:
    check_op(op, random(*shape) - 1)


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((2, 3), (1, 5, 7, 8)),
        ((5, 1), (2, 3, 3, 4)),
        ((3,), (1, 4, 8)),
        ((2, 2, 3), (1, 3, 3, 4, 5)),
    ],
)
@pytest.mark.parametrize("op", [AdaptiveAveragePool, AdaptiveMaxPool])
def test_adaptive(op: type, size: tuple[int, ...], shape: tuple[int, ...]) -> None:
    check_op(op(size), random(*shape))


@pytest.mark.parametrize(
    "base",
    [
        MaxPool((3, 3), (2, 2), (1, 1, 1, 1)),
        AveragePool((2, 2), (1, 1), (0, 0, 0, 0)),
        GlobalAveragePool(),
        GlobalMaxPool(),
        AdaptiveAveragePool((2, 3)),
    ],
    ids=lambda op: op.type_name,
)
def test_epilogue(base) -> None:
    x = random(1, 5, 7, 8)
    (y,) = base.reference(x)
    op = Fused(base, (FusedStep(Add(), 0), FusedStep(Sigmoid(), None)))
    check_op(op, x, random(*y.shape))
    check_op(op, x, random(1, 5, 1, 1), constants=(1,))


LARGE_WINDOWS = {
    "2-D": WINDOWS["wide"],
    "3-D": ((2, 3, 9), (1, 2, 1), (1, 1, 3, 0, 1, 2), (1, 3, 4, 5, 11)),
    "1-D": ((12,), (5,), (4, 3), (1, 5, 31)),
    "in the padding": ((2, 9), (2, 3), (3, 10, 2, 9), (1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", LARGE_WINDOWS)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_large_windows_are_pooled_by_rows_first(
    name: str, average: bool, count_include_pad: bool
) -> None:
    """As on a device that ends loops sooner."""
    kernel, strides, pads, shape = LARGE_WINDOWS[name]
    base = MaxPool(kernel, strides, pads)
    if average:
        base = AveragePool(kernel, strides, pads, count_include_pad)
    x = random(*shape)
    (y,) = base.reference(x)
    op = Fused(base, (FusedStep(Relu(), None), FusedStep(Add(), 0)))
    check_op(op, x, random(*y.shape), access=("image",), max_loop_rounds=kernel[-1] + 3)


def test_windows_too_large_for_the_loops_of_a_lane() -> None:
    x = random(1, 2, 272, 274) + 1
    check_op(AveragePool((270, 260), (3, 7), (0, 1, 2, 0)), x, access=("storage",))
    check_op(MaxPool((270, 260), (3, 7), (0, 0, 0, 0)), x, access=("storage",))
    x = np.random.default_rng(0).integers(-100, 100, (1, 2, 270, 262)).astype(np.int8)
    check_op(MaxPool((270, 260), (1, 1), (0, 0, 0, 0)), x, access=("storage",))
    check_op(MaxPool((1, 70_000), (1, 1), (0, 0, 0, 0)), random(1, 2, 3, 70_001), host=True)


@pytest.mark.parametrize("shape", [(1, 2, 300, 301), (1, 2, 1, 70_000), (1, 2, 30_000, 3)])
@pytest.mark.parametrize(
    "op",
    [
        GlobalAveragePool(),
        GlobalMaxPool(),
        AdaptiveAveragePool((1, 1)),
        AdaptiveMaxPool((1, 1)),
    ],
    ids=lambda op: op.type_name,
)
def test_large_images(op, shape: tuple[int, ...]) -> None:
    """More pixels than a lane may go through."""
    check_op(op, random(*shape) + 1, access=("storage",))
    check_op(op, random(*shape) + 1, access=("storage",), kind="discrete")


def test_a_window_that_is_the_image_is_pooled_as_one() -> None:
    shape = (1, 2, 300, 301)
    check_op(AveragePool((300, 301), (1, 1), (0, 0, 0, 0)), random(*shape) + 1, access=("storage",))
    check_op(MaxPool((300, 301), (1, 1), (0, 0, 0, 0)), random(*shape), access=("storage",))


@pytest.mark.parametrize("op", [AdaptiveAveragePool((2, 1)), AdaptiveMaxPool((2, 1))])
def test_large_adaptive_windows_are_pooled_by_rows_first(op) -> None:
    shape = (1, 2, 600, 301)
    fused = Fused(op, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0)))
    check_op(fused, random(*shape) + 1, random(1, 2, 2, 1), access=("storage",))
    check_op(op, random(1, 2, 3, 140_001), host=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (7, 11), (37, 41)], ids=str)
def test_means_of_whole_images_of_integers(dtype: str, size: tuple[int, int]) -> None:
    """Workgroups of GPUs that share an image: halves of either sign, and sums of one sign."""
    info, rng = np.iinfo(dtype), np.random.default_rng(9)
    x = rng.integers(info.min, info.max + 1, (2, 5, *size)).astype(dtype)
    x[0, 0], x[0, 1] = info.min, info.max
    x[1, 0], x[1, 1], x[1, 0, 0, 0], x[1, 1, 0, 0] = 0, 2, x.shape[2] * x.shape[3] // 2 % 120, 3
    ones, none = (1, 1), (0, 0, 0, 0)
    for op in (AveragePool(size, ones, none), MaxPool(size, ones, none)):
        check_op(op, x, kind="discrete", tolerance=0)
        check_op(op, x, kind="discrete", tolerance=0, only="shared", access=("storage",))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_means_of_integers(dtype: str) -> None:
    """Rounded, halves away from zero; padding does not count unless asked."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(info.min, info.max + 1, (1, 5, 7, 6)).astype(dtype)
    (y,) = AveragePool((2, 3), (2, 1), (1, 0, 0, 1)).reference(x)
    for place in np.ndindex(*y.shape):
        _, channel, i, j = place
        rows = slice(max(2 * i - 1, 0), 2 * i + 1)
        cells = x[0, channel, rows, j : j + 3].astype(int)
        assert y[place] == int(np.sign(cells.sum())) * (
            (abs(cells.sum()) + cells.size // 2) // cells.size
        )
    check_op(AveragePool((2, 3), (2, 1), (1, 0, 0, 1)), x)
    check_op(AveragePool((3, 2), (1, 2), (1, 1, 1, 1), True), x, access=("storage",))
