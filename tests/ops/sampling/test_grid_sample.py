"""GridSample: against NumPy on the device, and the reference against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.sampling.grid_sample import MODES, PADDINGS, GridSample

RNG = np.random.default_rng(5)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("align", [False, True], ids=["edges", "corners"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_images(mode: str, padding: str, align: bool) -> None:
    op = GridSample(mode, padding, align)
    check_op(op, normal(2, 5, 3, 7), normal(2, 5, 2, 2), access=("texel",))
    first = GridSample(mode, padding, align, grid_first=True)
    check_op(first, normal(1, 3, 4, 1), normal(1, 2, 11, 3, scale=3.0), access=("storage",))


@pytest.mark.parametrize("align", [False, True], ids=["edges", "corners"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_volumes(mode: str, padding: str, align: bool) -> None:
    op = GridSample(mode, padding, align)
    check_op(op, normal(1, 5, 2, 3, 4), normal(1, 2, 3, 5, 3), access=("image",))
    first = GridSample(mode, padding, align, grid_first=True)
    check_op(first, normal(1, 2, 3, 1, 5), normal(1, 3, 7, 1, 2), access=("storage",))


@pytest.mark.parametrize("mode", MODES)
def test_in_fp16(mode: str) -> None:
    grid = (RNG.integers(-9, 10, (1, 4, 5, 2)) / 8).astype(np.float32)
    check_op(GridSample(mode, "reflection"), normal(1, 5, 4, 8), grid, precision="fp16")


def test_places_far_outside_and_no_numbers() -> None:
    grid = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 0.0, 3e8, -3e8], np.float32)
    places = grid.reshape(1, 4, 1, 2)
    for padding in ("zeros", "border", "reflection"):
        for mode in MODES:
            op = GridSample(mode, padding)
            x = normal(1, 3, 4, 5)
            if padding == "reflection":  # of an infinity: none
                places = np.nan_to_num(places, nan=np.nan, posinf=2.5, neginf=-2.5)
            assert np.isfinite(op.reference(x, places)[0]).all()
            check_op(op, x, places, access=("storage",))


def test_many_places_are_shared_out() -> None:
    check_op(
        GridSample("cubic", "reflection"),
        normal(1, 3, 5, 6),
        normal(1, 37, 41, 2),
        access=("storage",),
        max_loop_rounds=60,
    )


def naive(op: GridSample, x: np.ndarray, point: list[float]) -> np.ndarray:
    """x [C, H, W] at one point (x, y), by the definition."""

    def keys(d: float) -> float:
        d = abs(d)
        if d <= 1:
            return 1.25 * d**3 - 2.25 * d**2 + 1
        return -0.75 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0

    def pad(place: float, size: int) -> float:
        if op.padding == "reflection":
            low, high = (0.0, size - 1.0) if op.align_corners else (-0.5, size - 0.5)
            place = 2 * low - place if place < low else place
            place = 2 * high - place if place > high else place
            return place if op.align_corners else min(max(place, 0.0), size - 1.0)
        return min(max(place, 0.0), size - 1.0) if op.padding == "border" else place

    total = np.zeros(x.shape[0])
    sizes = x.shape[:0:-1]
    places = [
        (g + 1) / 2 * (s - 1) if op.align_corners else ((g + 1) * s - 1) / 2
        for g, s in zip(point, sizes, strict=True)
    ]
    if op.mode != "cubic":
        places = [pad(p, s) for p, s in zip(places, sizes, strict=True)]
    span = range(-1, 3)
    for j in span:
        for i in span:
            at, weight = [], 1.0
            for place, offset, size in zip(places, (i, j), sizes, strict=True):
                if op.mode == "nearest":
                    tap, share = math.floor(place + 0.5), float(offset == 0)
                else:
                    tap = math.floor(place) + offset
                    distance = place - tap
                    share = keys(distance) if op.mode == "cubic" else max(0, 1 - abs(distance))
                if op.mode == "cubic":
                    tap = int(pad(float(tap), size))
                at.append(tap)
                weight *= share
            if weight and all(0 <= t < s for t, s in zip(at, sizes, strict=True)):
                total += weight * x[:, at[1], at[0]]
    return total


@pytest.mark.host
@pytest.mark.parametrize("align", [False, True], ids=["edges", "corners"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_reference_by_the_definition(mode: str, padding: str, align: bool) -> None:
    op = GridSample(mode, padding, align)
    x, grid = normal(1, 2, 4, 5), normal(1, 3, 7, 2, scale=0.8)
    (y,) = op.reference(x, grid)
    for (i, j), value in np.ndenumerate(y[0, 0]):
        want = naive(op, x[0].astype(np.float64), [float(g) for g in grid[0, i, j]])
        np.testing.assert_allclose(y[0, :, i, j], want, atol=2e-5)
        assert np.isfinite(value)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "x", "grid"),
    [
        (GridSample("cubic"), (1, 3, 4, 5, 6), (1, 2, 2, 2, 2)),
        (GridSample("lanczos"), (1, 3, 4, 5), (1, 2, 2, 2)),
        (GridSample(padding="wrap"), (1, 3, 4, 5), (1, 2, 2, 2)),
        (GridSample(), (1, 3, 4, 5), (1, 2, 2, 3)),
        (GridSample(), (1, 3, 4, 5), (2, 2, 2, 2)),
        (GridSample(), (1, 3, 4), (1, 2, 1)),
        (GridSample(grid_first=True), (1, 3, 4, 5), (1, 3, 2, 2)),
    ],
    ids=str,
)
def test_what_does_not_fit(op: GridSample, x: tuple[int, ...], grid: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="GridSample"):
        op.infer(TensorType(x), TensorType(grid))


@pytest.mark.parametrize("align", [False, True], ids=["edges", "corners"])
@pytest.mark.parametrize("mode", MODES)
def test_reflection_as_often_as_it_takes(mode: str, align: bool) -> None:
    x = normal(1, 2, 3, 5)
    columns = np.arange(-17, 23)  # whole places, so that all modes give elements of x
    coordinate = columns * 2 / 4 - 1 if align else (2 * columns + 1) / 5 - 1
    grid = np.zeros((1, 1, len(columns), 2), np.float32)
    grid[..., 0] = coordinate
    padded = np.pad(x[:, :, 1:2], [(0, 0)] * 3 + [(17, 18)], "reflect" if align else "symmetric")
    op = GridSample(mode, "reflection", align, repeated=True)
    np.testing.assert_allclose(op.reference(x, grid)[0], padded, atol=1e-4)
    check_op(op, x, grid, access=("storage",))
    check_op(op, x, normal(1, 3, 7, 2, scale=5.0), access=("texel",))
    check_op(op, normal(1, 3, 1, 1), normal(1, 3, 5, 2, scale=3.0), access=("storage",))


def test_repeated_reflection_of_volumes() -> None:
    op = GridSample("linear", "reflection", True, repeated=True)
    check_op(op, normal(1, 2, 3, 1, 5), normal(1, 2, 3, 5, 3, scale=4.0), access=("storage",))


@pytest.mark.parametrize("padding", PADDINGS)
def test_halves_to_even(padding: str) -> None:
    x = normal(1, 3, 1, 5)
    grid = np.zeros((1, 1, 9, 2), np.float32)
    grid[..., 0] = np.arange(9) / 4 - 1
    op = GridSample("nearest", padding, True, to_even=True, repeated=True)
    expected = x[..., np.rint(np.arange(9) / 2).astype(int)]
    np.testing.assert_array_equal(op.reference(x, grid)[0], expected)
    check_op(op, x, grid, access=("storage",))
    outside = GridSample("nearest", padding, False, to_even=True, repeated=True)
    check_op(outside, normal(2, 3, 4, 8), halves(2, 5, 3, 2), access=("storage",))


def halves(*shape: int) -> np.ndarray:
    """Coordinates whose places in axes of 4 and 8 elements are halves and wholes."""
    return (RNG.integers(-20, 21, shape) / 8).astype(np.float32)


def test_grids_of_float64_are_not_rounded() -> None:
    x = np.linspace(0, 1, 1001).reshape(1, 1, 1, 1001)
    grid = np.zeros((1, 1, 1, 2))
    grid[..., 0] = 1 / 3
    found = GridSample("linear", align_corners=True).reference(x, grid)[0]
    assert abs(found.item() - 2 / 3) < 1e-12
