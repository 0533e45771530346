"""Crop, StridedSlice, Split, Slice, Flatten."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, fixed, refuse

from vknn.errors import ModelFormatError
from vknn.session import Session

DTYPES = (np.float32, np.int32, np.uint8, np.int64)


def made(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return (np.arange(math.prod(shape)) % 251).astype(dtype).reshape(shape)


@pytest.mark.parametrize("backend", BACKENDS)
def test_crop(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = made((3, 8, 7, 9))
    for axes in ((1,), (2, 3), (3, 2), (0, 1, 2, 3), (-1, -3), (0,)):
        begin = [i % 3 for i in range(len(axes))]
        size = [min(4, x.shape[a] - b) for a, b in zip(axes, begin, strict=True)]
        part = [slice(None)] * 4
        donor = [1, 1, 1, 1]
        for axis, b, s in zip(axes, begin, size, strict=True):
            part[axis], donor[axis] = slice(b, b + s), s
        expected = x[tuple(part)]
        given: dict[str, Any] = {"axis": axes, "offset": begin}
        many.add("Crop", [x, np.zeros(donor, np.float32)], expected, given)
        many.add("Crop", [x], expected, given | {"dim": size})
        many.add("Crop", [x], expected, given)  # then the port says it
        sizes = [x.shape[a] for a in axes]
        end = [n - b - s for n, b, s in zip(sizes, begin, size, strict=True)]
        third = {"axis": axes, "crop_begin": begin, "crop_end": end}
        many.add("Crop", [x], expected, third)
    many.add("Crop", [x], x[:, 2:5], {"offset": "2", "dim": "3"})
    many.add("Crop", [x], x[..., 1:4, 1:4], {"axis": "2,3", "offset": "1", "dim": "3"})
    for shape in ((5,), (4, 6), (2, 5, 3), (2, 3, 4, 5, 6)):
        for dtype in DTYPES:
            y = made(shape, dtype)
            last = {"axis": len(shape) - 1, "offset": 1, "dim": 2}
            many.add("Crop", [y], y[..., 1:3], last)
    many.check(backend, tmp_path)


# Each: shape, begin, end, stride, masks, NumPy's key.
S = slice
N = None
SLICES: list[tuple[tuple[int, ...], Any, Any, Any, dict[str, Any], Any]] = [
    ((5,), (1,), (4,), None, {}, S(1, 4)),
    ((5,), (-3,), (99,), (2,), {}, S(-3, None, 2)),
    ((5,), (4,), (0,), (-1,), {}, S(4, 0, -1)),
    ((5,), (4,), (-1,), (-1,), {"begin_mask": 0, "end_mask": 0}, S(N, N, -1)),
    ((5,), (0,), (-99,), (-2,), {"begin_mask": 0}, S(N, N, -2)),
    ((5,), (-1,), (-4,), (-1,), {}, S(-1, -4, -1)),
    ((4, 5), (1, 2), (0, 5), (1, 2), {"end_mask": (0, 1)}, (S(1, N), S(2, 5, 2))),
    ((4, 5), (1, 2), (3, 5), None, {"shrink_axis_mask": (1, 0)}, (1, S(2, 5))),
    ((4, 5), (-1, 2), (0, 5), None, {"shrink_axis_mask": (1, 1)}, (-1, 2)),
    ((4, 5), (3,), (0,), (-2,), {}, S(3, 0, -2)),
    ((4, 5), (0, 1), (0, 4), None, {"new_axis_mask": (1, 0)}, (N, S(1, 4))),
    ((4, 5), (0, 1), (0, 4), None, {"new_axis_mask": (0, 1), "end_mask": (0, 1)}, (S(N), N)),
    ((4, 5), (1, 0, 2), (3, 0, 5), None, {"new_axis_mask": (0, 1, 0)}, (S(1, 3), N, S(2, 5))),
    ((2, 3, 4, 5), (0, 2), (0, 4), None, {"ellipsis_mask": (1, 0)}, (Ellipsis, S(2, 4))),
    ((2, 3, 4, 5), (1, 0, 2), (2, 0, 4), None, {"ellipsis_mask": (0, 1)}, (S(1, 2), ..., S(2, 4))),
    ((2, 3, 4, 5), (1, 0, 2), (2, 0, 4), None,
     {"ellipsis_mask": (0, 1), "shrink_axis_mask": (1, 0, 1)}, (1, ..., 2)),
    ((2, 3, 4), (0, 0, 1, 2), (2, 0, 3, 4), None, {"ellipsis_mask": (0, 1)},
     (S(N), S(1, 3), S(2, 4))),
    ((2, 3, 4), (0, 0, 1), (0, 0, 3), (1, 1, 2),
     {"ellipsis_mask": (1, 0, 0), "new_axis_mask": (0, 1, 0)}, (..., N, S(1, 3, 2))),
    ((2, 3, 4), (0, 0, 0), (0, 0, 0), None,
     {"ellipsis_mask": (0, 1, 0), "new_axis_mask": (1, 0, 1)}, (N, ..., N)),
    ((1, 2, 6, 4, 8), (0, 1, 0, 0, 0), (0, 2, 0, 0, 0), (1, 1, 1, 1, 1),
     {"begin_mask": (0, 1, 0, 0, 0), "end_mask": (0, 1, 0, 0, 0), "ellipsis_mask": (0,) * 5,
      "new_axis_mask": (0,) * 5, "shrink_axis_mask": (0, 1, 0, 0, 0)}, (S(N), 1)),
    ((2, 3, 4), (5, 5, 5), (9, 9, 9), (-1, -1, -1), {"end_mask": (0, 0, 0)}, (S(N, N, -1),) * 3),
    ((7, 9), (-2147483648, 0), (2147483647, 9), (3, 4), {}, (S(N, N, 3), S(N, N, 4))),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_slice(backend: str, tmp_path: Path) -> None:
    many = Many()
    for shape, begin, end, stride, masks, key in SLICES:
        for dtype in DTYPES[:2]:
            x = made(shape, dtype)
            inputs = [x, fixed(*begin), fixed(*end)]
            inputs += [] if stride is None else [fixed(*stride, dtype=np.int64)]
            expected = np.asarray(x[key])
            many.add("StridedSlice", inputs, expected, masks)
    x = made((6, 6))
    far = [fixed(-(2**63), 1, dtype=np.int64), fixed(2**63 - 1, 5, dtype=np.int64)]
    many.add("StridedSlice", [x, *far], x[:, 1:5])
    many.check(backend, tmp_path)


def test_strided_slice_at_run_time(tmp_path: Path) -> None:
    """Bounds that are fed must agree with the shapes in the file."""
    many = Many()
    x, begin, end = made((4, 5)), np.array([1, 2], np.int32), np.array([3, 5], np.int32)
    many.add("StridedSlice", [x, begin, end], x[1:3, 2:5])
    many.check("numpy", tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_split_and_slice(backend: str, tmp_path: Path) -> None:
    many = Many()
    for rank, dtype in itertools.product(range(1, 6), DTYPES):
        x = made((4, 6, 4, 2, 4)[:rank], dtype)
        for axis in range(rank):
            halves = np.split(x, 2, axis)
            many.add("Split", [x], halves, {"axis": axis, "num_split": 2})
            if x.shape[axis] > 2:
                uneven = np.split(x, [1, 3], axis)
                many.add("Slice", [x], uneven, {"axis": axis})
                many.add("Split", [x], uneven, {"axis": axis, "num_split": 3})
    x = made((3, 4, 5))
    many.add("Split", [x], np.split(x, 4, 1), {"num_split": 4})
    many.add("Slice", [x], np.split(x, [1], 1))
    many.add("Split", [x], np.split(x, 5, -1), {"axis": -1, "num_split": 5})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_flatten(backend: str, tmp_path: Path) -> None:
    many = Many()
    for rank in range(1, 6):
        x = made((2, 3, 4, 2, 3)[:rank])
        for first, last in itertools.combinations_with_replacement(range(rank), 2):
            dims = (*x.shape[:first], -1, *x.shape[last + 1 :])
            many.add("Flatten", [x], x.reshape(dims), {"axis": first, "end_axis": last})
            many.add("Flatten", [x], x.reshape(dims), {"axis": first, "end_axis": last - rank})
        many.add("Flatten", [x], x.reshape(-1), {"axis": 0})
        many.add("Flatten", [x], x.reshape(x.shape[0], -1))
    many.check(backend, tmp_path)


def test_other_shapes_than_the_files(tmp_path: Path) -> None:
    """Attributes hold for inputs of other shapes, sizes that only ports state do not."""
    many = Many()
    x = made((2, 6))
    many.add("Split", [x], np.split(x, 2, 1), {"axis": 1, "num_split": 2})
    many.add("Crop", [x], x[:, 1:4], {"axis": 1, "crop_begin": 1, "crop_end": 2})
    many.add("StridedSlice", [x, fixed(0, 0), fixed(0, -1)], x[:, :-1], {"end_mask": "0,1"})
    path = many.net.save(tmp_path)
    larger = made((3, 10))
    with Session(path, device="numpy") as session:
        results = session.run(dict.fromkeys(many.feeds, larger))
    expected = [*np.split(larger, 2, 1), larger[:, 1:8], larger[:, :-1]]
    for found, wanted in zip(results.values(), expected, strict=True):
        assert np.array_equal(found, wanted)


def test_refused(tmp_path: Path) -> None:
    x = made((2, 3, 4))
    crop = {"axis": 2, "offset": 3}
    refuse(tmp_path, "Crop", [x], [(2, 3, 2)], crop | {"dim": 2}, "keeps 3 to 5 of 4")
    refuse(tmp_path, "Crop", [x], [(2, 3, 2)], crop | {"offset": "1,2", "dim": 2}, "for 1 axes")
    without = {"axis": 2, "dim": 2}
    refuse(tmp_path, "Crop", [x], [(2, 3, 2)], without, "no offset", ModelFormatError)
    refuse(tmp_path, "Crop", [x], [(2, 3, 2)], {"axis": 5, "offset": 0, "dim": 2}, "axis 5")
    both = {"axis": "1,-2", "offset": "0,0", "dim": "1,1"}
    refuse(tmp_path, "Crop", [x], [(2, 1, 4)], both, "twice")
    donor = Fixed(np.zeros((2, 3), np.float32))
    refuse(tmp_path, "Crop", [x, donor], [(2, 3, 2)], {"axis": 2, "offset": 0}, "crops axes")
    ends = {"axis": 2, "crop_begin": 2, "crop_end": 2}
    refuse(tmp_path, "Crop", [x], [(2, 3, 1)], ends, "keeps 2 to 2")
    refuse(tmp_path, "Crop", [x], [(2, 3, 1)], {"crop_begin": 0, "crop_end": -1}, "negative")
    part = [x, fixed(0, 0), fixed(2, 2)]
    refuse(tmp_path, "StridedSlice", [*part, fixed(1, 0)], [(2, 2, 4)], None, "stride of 0")
    refuse(tmp_path, "StridedSlice", [*part, fixed(1)], [(2, 2, 4)], None, "differ in length")
    refuse(tmp_path, "StridedSlice", part, [(2, 2, 4)], {"begin_mask": "2"}, "no mask")
    two = {"ellipsis_mask": "1,1"}
    refuse(tmp_path, "StridedSlice", part, [(2, 2, 4)], two, "more than one ellipsis")
    four = [x, fixed(0, 0, 0, 0), fixed(1, 1, 1, 1)]
    refuse(tmp_path, "StridedSlice", four, [(1, 1, 1)], None, "4 entries for 3 axes")
    none = [x, fixed(1), fixed(1)]
    refuse(tmp_path, "StridedSlice", none, [(1, 3, 4)], None, "leaves nothing")
    parts = [(2, 3, 2), (2, 3, 1)]
    refuse(tmp_path, "Slice", [x], parts, {"axis": 2}, "do not make up 4")
    refuse(tmp_path, "Split", [x], parts, {"axis": 2, "num_split": 3}, "not num_split")
