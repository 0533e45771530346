"""Resizing of quantized integers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.quantized.resize import QuantizedResize

COORDINATES = ("half_pixel", "align_corners", "asymmetric")
DTYPES = (np.int8, np.uint8, np.int16)


def image(dtype: type, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(3).integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("dtype", DTYPES, ids=["int8", "uint8", "int16"])
@pytest.mark.parametrize("sizes", [(7, 5), (1, 2), (2, 1)])
def test_resize(sizes: tuple[int, int], dtype: type, coordinates: str) -> None:
    check_op(QuantizedResize(sizes, coordinates), image(dtype, 2, 5, 3, 4))
    check_op(QuantizedResize(sizes, coordinates, True), image(dtype, 1, 4, 3, 1))


@pytest.mark.parametrize("low", [-32768, 32767])
def test_extremes_of_16_bits(low: int) -> None:
    check_op(QuantizedResize((5, 5)), np.full((1, 3, 3, 3), low, np.int16))


def corners(x: np.ndarray, place: int, size: int) -> tuple[int, int, int]:
    """Neighbours and the weight of the second at a place with 10 fractional bits."""
    low, high = max(place >> 10, 0), min((place + 1023) >> 10, size - 1)
    low = min(low, size - 1)
    return low, high, 0 if low == high else place - 1024 * low


@pytest.mark.host
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_reference_place_by_place(coordinates: str) -> None:
    x, (rows, columns) = image(np.int8, 1, 1, 5, 3), (7, 4)
    y = np.empty((1, 1, rows, columns), np.int8)
    last = int(coordinates == "align_corners")

    def places(size: int, out: int) -> list[int]:
        step = (1024 * (size - last) + (out - last) // 2) // (out - last)
        shift = step // 2 - 512 if coordinates == "half_pixel" else 0
        return [i * step + shift for i in range(out)]

    for i, row in enumerate(places(5, rows)):
        for j, column in enumerate(places(3, columns)):
            r0, r1, v = corners(x, row, 5)
            c0, c1, w = corners(x, column, 3)
            total = 0
            for r, wr in ((r0, 1024 - v), (r1, v)):
                for k, wk in ((c0, 1024 - w), (c1, w)):
                    total += int(x[0, 0, r, k]) * wr * wk
            rounded = (abs(total) + (1 << 19)) >> 20
            y[0, 0, i, j] = rounded if total >= 0 else -rounded
    (got,) = QuantizedResize((rows, columns), coordinates).reference(x)
    assert np.array_equal(got, y)


@pytest.mark.host
def test_floats_are_rounded_halves_up() -> None:
    x = np.array([0, 3, 10], np.uint8).reshape(1, 1, 1, 3)
    (y,) = QuantizedResize((1, 5), "align_corners", True).reference(x)
    assert y.reshape(-1).tolist() == [0, 2, 3, 7, 10]


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "x", "message"),
    [
        (QuantizedResize((2, 2)), np.zeros((1, 1, 2, 2), np.int32), "at most 16 bits"),
        (QuantizedResize((2, 2)), np.zeros((1, 2, 2), np.int8), "is no image"),
        (QuantizedResize((0, 2)), np.zeros((1, 1, 2, 2), np.int8), "below 1"),
        (QuantizedResize((2, 2)), np.zeros((1, 1, 0, 2), np.int8), "empty"),
        (QuantizedResize((2, 2), "middle"), np.zeros((1, 1, 2, 2), np.int8), "no coordinates"),
    ],
    ids=["int32", "rank 3", "size 0", "empty", "coordinates"],
)
def test_nonsense_is_an_error(op: QuantizedResize, x: np.ndarray, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        op.infer(TensorType.of(x))
