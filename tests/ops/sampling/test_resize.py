"""Resizing on the device against its reference."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.sampling.resize import Resize

RANDOM = np.random.default_rng(13)
COORDINATES = ("half_pixel", "align_corners", "asymmetric")


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 5, 3, 7), (7, 11)),
        ((2, 8, 7, 5), (3, 2)),
        ((1, 1, 1, 4), (5, 1)),
        ((1, 13, 7), (11,)),
        ((2, 3, 2, 3, 4), (5, 3, 7)),
    ],
)
def test_modes(shape: tuple[int, ...], sizes: tuple[int, ...], mode: str, coordinates: str) -> None:
    check_op(Resize(sizes, mode, coordinates), normal(*shape), tolerance=1e-6, access=("texel",))


def test_steps_given() -> None:
    x = normal(1, 4, 5, 5)
    for mode in ("nearest", "linear", "cubic"):
        check_op(Resize((7, 9), mode, "asymmetric", (0.7, 0.53)), x, tolerance=1e-6)
        check_op(Resize((10, 10), mode, "half_pixel", (0.5, 0.5)), x, tolerance=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 13])
def test_channels(channels: int) -> None:
    check_op(Resize((5, 4), "linear"), normal(1, channels, 2, 3), tolerance=1e-6)


def test_nearest_of_integers() -> None:
    x = np.arange(60, dtype=np.int8).reshape(1, 5, 3, 4)
    check_op(Resize((6, 8), "nearest", "asymmetric"), x)


def test_too_many_axes_stay_on_the_host() -> None:
    check_op(Resize((2, 2, 2, 2)), normal(1, 1, 1, 1, 1, 1), host=True)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_lanes_take_no_more_than_their_loops_allow(mode: str) -> None:
    """As on a device that ends loops sooner."""
    op = Resize((37, 41), mode, "half_pixel", (9 / 37, 8 / 41))
    check_op(op, normal(1, 5, 9, 8), access=("storage",), max_loop_rounds=60)
