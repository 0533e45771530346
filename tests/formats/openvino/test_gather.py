"""Gather, Bucketize and OneHot."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, fixed, refuse, scalar

from vknn.errors import ModelFormatError

DTYPES = (np.float32, np.int32, np.uint8, np.int64)
SMALL = (np.int8, np.uint8, np.int16)


def made(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return (np.arange(math.prod(shape)) % 127 + 1).astype(dtype).reshape(shape)


def taken(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """numpy.take, with zeros for indices out of range."""
    axis %= x.ndim
    y = np.take(x, np.clip(indices, 0, x.shape[axis] - 1), axis)
    inside = (indices >= 0) & (indices < x.shape[axis])
    return np.where(inside.reshape(*indices.shape, *[1] * (x.ndim - axis - 1)), y, y.dtype.type(0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gather(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(0)
    for rank in range(1, 6):
        shape = (5, 3, 4, 2, 3)[:rank]
        for axis, named in itertools.product(range(-rank, rank), ((), (3,), (2, 4), (1, 2, 2))):
            x = made(shape)
            places = np.asarray(rng.integers(0, shape[axis], named), np.int32)
            expected = np.asarray(np.take(x, places, axis))
            number = axis % 4 + len(named)
            indices: Input = places.astype((np.float32, np.int32, np.int64)[number % 3])
            indices = Fixed(indices) if number % 2 else indices
            many.add("Gather", [x, indices], expected, {"axis": axis})
    for dtype, given in itertools.product(DTYPES, (np.float32, np.int32, np.int64, *SMALL)):
        x, places = made((5, 4), dtype), np.array([3, 0, 4], given)
        many.add("Gather", [x, places], x[[3, 0, 4]])
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gather_out_of_range(backend: str, tmp_path: Path) -> None:
    many = Many()
    places = np.array([[-1, 0, 4], [5, 2, 2**30]])
    for dtype in DTYPES:
        for axis, shape in ((0, (5, 3)), (1, (2, 5, 4)), (-1, (3, 5))):
            x = made(shape, dtype)
            expected = taken(x, places, axis)
            for indices in (places.astype(np.float32), places.astype(np.int32)):
                many.add("Gather", [x, indices], expected, {"axis": axis})
                many.add("Gather", [x, Fixed(indices)], expected, {"axis": axis})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gather_as_the_notation_has_it(backend: str, tmp_path: Path) -> None:
    """The shapes tell which input is the data; where both suit, the first is."""
    many = Many()
    x, places = made((6, 5, 4)), np.array([1, 3], np.int32)
    many.add("Gather", [places, x], x[:, [1, 3]], {"axis": 1})
    many.add("Gather", [places, x], x[[1, 3]])
    square = np.array([2, 0, 1, 1], np.int32)
    many.add("Gather", [made((4,), np.int32), square], made((4,), np.int32)[square])
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bucketize(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(1)
    whole, parts = np.array([-3, -1, 0, 2, 2, 7]), np.array([-2.5, -1, 0.25, 2, 2, 3.5])
    for shape, right in itertools.product(((7,), (3, 4), (2, 3, 2, 5), ()), (True, False)):
        side = "left" if right else "right"
        for keys, x in itertools.product(
            (whole.astype(np.int32), parts.astype(np.float32), whole.astype(np.float32)),
            (
                np.asarray(rng.integers(-4, 9, shape), np.int32),
                np.asarray(rng.integers(-8, 18, shape) / 2, np.float32),
                np.asarray(rng.integers(-4, 9, shape), np.int64),
                np.asarray(rng.integers(0, 9, shape), np.uint8),
            ),
        ):
            expected = np.asarray(np.searchsorted(keys, x, side), np.int32)
            given = {"with_right_bound": ("False", "True")[right]}
            many.add("Bucketize", [x, Fixed(keys)], expected, given)
            if right and shape == (7,):
                many.add("Bucketize", [x, keys], expected.astype(np.int64))
    large = np.array([2**24, 2**24 + 1, 2**24 + 2], np.int32)
    near = np.array([2**24, 2**24 + 2], np.float32)
    for right, expected in ((True, [0, 1, 1]), (False, [1, 1, 2])):
        given = {"with_right_bound": right}
        many.add("Bucketize", [large, near], np.array(expected, np.int32), given)
    keys = np.array([2**24 + 1, 2**24 + 3], np.int32)
    x = np.array([2**24, 2**24 + 2, np.inf, -np.inf], np.float32)
    many.add("Bucketize", [x, keys], np.array([0, 1, 2, 0], np.int32))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_hot(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(2)
    for shape in ((), (3,), (2, 4), (2, 3, 4), (2, 1, 3, 2)):
        indices = np.asarray(rng.integers(-2, 7, shape))
        for axis in range(-1 - len(shape), len(shape) + 1):
            hot = np.moveaxis(indices[..., None] == np.arange(5), -1, axis)
            for dtype in (np.int32, np.float32, np.int64):
                given: dict[str, Any] = {"depth": 5, "axis": axis}
                many.add("OneHot", [indices.astype(dtype)], hot.astype(np.float32), given)
    indices = np.array([1, 0, 2], np.int32)
    hot = indices[:, None] == np.arange(3)
    for on, off, high, low in (
        ("2.5", "-1e-3", 2.5, -1e-3), ("True", "False", 1, 0), ("0", "1", 0, 1),
        ("false", "true", 0, 1),
    ):  # fmt: skip
        given = {"depth": 3, "on_value": on, "off_value": off}
        many.add("OneHot", [indices], np.where(hot, high, low).astype(np.float32), given)
    for dtype in DTYPES:
        given = {"depth": 3, "on_value": 7, "off_value": 3}
        many.add("OneHot", [indices], np.where(hot, 7, 3).astype(dtype), given)
        many.add("OneHot", [indices.astype(np.uint8)], hot.astype(dtype), {"depth": 3})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_of_float16(backend: str, tmp_path: Path) -> None:
    """Files of half precision store indices and boundaries so, too."""
    many = Many()
    x = made((4, 5))
    many.add(
        "Gather",
        [x, fixed(3, 0, 9, dtype=np.float16)],
        x[[3, 0, 3]] * np.array([[1], [1], [0]], np.float32),
    )
    keys = fixed(-1.5, 0.25, 2, dtype=np.float16)
    places = np.array([0, 1, 2, 3, 0], np.int32)
    for dtype in (np.float32, np.int32):
        many.add("Bucketize", [np.array([-2, 0, 1, 3, -9], dtype), keys], places)
    hot = np.eye(3, dtype=np.float32)[[2, 0]]
    many.add("OneHot", [fixed(2, 0, dtype=np.float16)], hot, {"depth": 3})
    many.add("Fill", [fixed(2, 3), scalar(0.5, np.float16)], np.full((2, 3), 0.5, np.float32))
    many.add("Unsqueeze", [x, scalar(-1, np.float16)], x[..., None])
    many.check(backend, tmp_path)


def test_refused(tmp_path: Path) -> None:
    x, places = made((4, 5)), np.array([1, 2], np.int32)
    refuse(tmp_path, "Gather", [x, places], [(2, 5)], {"axis": 2}, "axis 2")
    refuse(tmp_path, "Gather", [x, places], [(3, 5)], None, "the file says")
    refuse(tmp_path, "Bucketize", [x, made((2, 2))], [(4, 5)], None, "boundaries of the shape")
    sided = {"with_right_bound": "maybe"}
    refuse(tmp_path, "Bucketize", [x, made((2,))], [(4, 5)], sided, "not true or false")
    refuse(tmp_path, "OneHot", [places], [(2, 3)], {}, "has no depth", ModelFormatError)
    refuse(tmp_path, "OneHot", [places], [(2, 3)], {"depth": 0}, "has depth 0")
    refuse(tmp_path, "OneHot", [places], [(2, 3)], {"depth": 3, "axis": 2}, "axis 2")
    refuse(tmp_path, "OneHot", [places], [(2, 3)], {"depth": 2**29}, "the file says")
    refuse(tmp_path, "OneHot", [places], [(2, 3)], {"depth": 2**31}, "has depth")
    hot = {"depth": 3, "on_value": "hot"}
    refuse(tmp_path, "OneHot", [places], [(2, 3)], hot, "not a number")
