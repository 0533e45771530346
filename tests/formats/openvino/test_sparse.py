"""Sparse tensors, against loops over their entries."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Input, Many, fixed, refuse, scalar

from vknn.session import Session

NAMES = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def segments(name: str, x: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The sums of the segments; the lists end at the first number that is out of range."""
    y = np.zeros((len(rows), *x.shape[1:]))
    counts = np.zeros(len(rows))
    for row, place in zip(rows.astype(int), ids.astype(int), strict=True):
        if not (0 <= row < len(x) and 0 <= place < len(rows)):
            break
        y[place] += x[row]
        counts[place] += 1
    divisor = {"Sum": np.ones_like(counts), "Mean": counts, "SqrtN": np.sqrt(counts)}
    divisor = np.maximum(divisor[name.removeprefix("SparseSegment")], 1)
    return (y / divisor.reshape(-1, *[1] * (x.ndim - 1))).astype(x.dtype)


LISTS = (
    ([0, 1, 3, 2], [0, 0, 1, 1]), ([4, 0, 0, 2, 1], [0, 1, 1, 1, 3]), ([2, 2, 2], [0, 0, 0]),
    ([3, 1, 4], [0, 1, 2]), ([0, 4, 1, 3, 3, 2], [1, 2, 2, 4, 4, 4]), ([2], [0]),
    ([0, 1, 2, -1, 0, 0], [0, 0, 2, -1, 0, 0]), ([1, 2, -1, 0], [0, 1, 1, 1]),
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_segments(name: str, backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    inners, dtypes = ((), (3,), (4,), (2, 3), (2, 1, 5)), (np.float32, np.int32, np.int64)
    for number, (rows, ids) in enumerate(LISTS * 2):
        x, dtype = made(5, *inners[number % 5]), dtypes[number % 3]
        lists = [np.array(values, dtype) for values in (rows, ids)]
        expected = segments(name, x, *lists)
        given: list[Input] = [Fixed(v) if dtype is np.int64 else v for v in lists]
        many.add(name, [x, *given], expected)
    rng = np.random.default_rng(5)
    x, rows = made(40, 7), rng.integers(0, 40, 300)
    ids = np.sort(rng.integers(0, 90, 300)).astype(np.float32)
    many.add(name, [x, rows.astype(np.int32), ids], segments(name, x, rows, ids))
    if name == "SparseSegmentSum":
        whole = rng.integers(-99, 99, (5, 2)).astype(np.int32)
        lists = [np.array(values, np.int32) for values in LISTS[1]]
        many.add(name, [whole, *lists], segments(name, whole, *lists))
    many.check(backend, tmp_path)


def weighted(
    pairs: np.ndarray,
    names: np.ndarray,
    size: tuple[int, int],
    table: np.ndarray,
    default: int,
    weights: np.ndarray | None,
) -> np.ndarray:
    """A row that comes again later starts anew."""
    y = np.repeat(table[default : default + 1], size[0], 0).astype(np.float64)
    before = -1
    for i, (row, column) in enumerate(pairs):
        if not (0 <= row < size[0] and 0 <= column < size[1]):
            break
        if row != before:
            y[row] = 0
        y[row] += table[names[i]] * (1.0 if weights is None else weights[i])
        before = row
    return y.astype(np.float32)


PAIRS = (
    [[0, 0], [0, 1], [2, 0]], [[1, 0], [1, 2], [1, 4], [3, 3]], [[3, 0]], [[0, 0], [1, 0], [2, 0]],
    [[0, 1], [0, 2], [2, 0], [-1, -1], [0, 0]], [[0, 1], [2, 0], [2, 1], [0, 2], [0, 3]],
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_weighted_sum(backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    for number, given in enumerate(PAIRS * 2):
        inner, default = ((3,), (), (4,), (2, 3))[number % 4], number % 2 * 4
        table, pairs = made(5, *inner), np.array(given, np.int32)
        names = np.arange(len(pairs), dtype=np.int32)[::-1].copy()
        weights = made(len(pairs), seed=1) if number < 6 else None
        expected = weighted(pairs, names, (4, 5), table, default, weights)
        last: list[Input] = [] if weights is None else [weights]
        inputs = [pairs, names, fixed(4, 5), table, scalar(default), *last]
        many.add("ExperimentalSparseWeightedSum", inputs, expected)
    one = [Fixed(pairs), names.astype(np.int64), np.array([4, 5], np.int32), table]
    expected = weighted(pairs, names, (4, 5), table, 2, None)
    many.add("ExperimentalSparseWeightedSum", [*one, np.array([2], np.int32)], expected)
    many.check(backend, tmp_path)


def filled(
    pairs: np.ndarray, values: np.ndarray, size: tuple[int, int], default: float, places: int
) -> list[np.ndarray]:
    """Entries sorted by row, one more for each empty row, then (-1, -1), then zeros."""
    entries = []
    for (row, column), value in zip(pairs.astype(int), values, strict=True):
        if not (0 <= row < size[0] and 0 <= column < size[1]):
            break
        entries.append((row, column, value))
    empty = np.array([all(e[0] != row for e in entries) for row in range(size[0])])
    entries += [(row, 0, default) for row in np.flatnonzero(empty)]
    entries.sort(key=lambda e: e[0])
    indices, found = np.zeros((places, 2)), np.zeros(places)
    for i, (row, column, value) in enumerate(entries[:places]):
        indices[i], found[i] = (row, column), value
    if len(entries) < places:
        indices[len(entries)] = -1
    return [indices.astype(pairs.dtype), found.astype(values.dtype), empty.astype(values.dtype)]


ENTRIES = (
    [[5, 2]], [[0, 0], [0, 2], [3, 1]], [[4, 1], [1, 1], [4, 0], [1, 0]], [[-1, -1]],
    [[2, 0], [-1, -1], [0, 0]], [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [5, 0]],
    [[5, 0], [5, 1], [0, 2], [6, 0]],
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_fill_empty_rows(backend: str, tmp_path: Path) -> None:
    many = Many()
    for number, given in enumerate(ENTRIES):
        dtype = (np.float32, np.int32)[number % 2]
        pairs, values = np.array(given, dtype), np.arange(len(given)).astype(dtype) + 7
        size = fixed(6, 3, dtype=dtype)
        for more in ((0, 4), (1, -3))[number // 2 % 2]:
            places = len(given) + 6 + more
            expected = filled(pairs, values, (6, 3), -2, places)
            default = (scalar(-2, dtype), np.array([-2], dtype))[more % 2]
            many.add("SparseFillEmptyRows", [pairs, values, size, default], expected)
    expected = filled(pairs, values, (6, 3), -2, 12)
    dynamic = [pairs, values, np.array([6, 3], np.int32), default]
    many.add("SparseFillEmptyRows", dynamic, expected)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_to_dense(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(2)
    for rank, dtype in itertools.product(range(1, 6), (np.float32, np.int32, np.int64)):
        shape = (4, 3, 5, 2, 3)[:rank]
        for count in (1, 3, 9):
            places = np.stack([rng.integers(0, s, count) for s in shape], 1)
            values = rng.integers(1, 99, count).astype(dtype)
            for default in (None, -1):
                expected = np.full(shape, default or 0, dtype)
                for place, value in zip(places, values, strict=True):
                    expected[tuple(place)] = value
                last: list[Input] = [] if default is None else [scalar(default, dtype)]
                inputs = [places.astype(np.int32), fixed(*shape), values, *last]
                many.add("SparseToDense", inputs, expected)
    outside = np.array([[0, 1], [-1, 0], [2, 5]], np.int32)
    expected = np.array([[0, 4, 0], [0, 0, 0], [0, 0, 0]], np.float32)
    numbers: Any = np.array([4, 5, 6], np.float32)
    many.add("SparseToDense", [outside, fixed(3, 3), numbers], expected)
    line = [np.array([2, 0], np.int32), np.array([4], np.int32), scalar(3.0, np.float32)]
    many.add("SparseToDense", line, np.array([3, 0, 3, 0], np.float32))
    many.check(backend, tmp_path)


def test_other_shapes_than_the_files(tmp_path: Path) -> None:
    """Without the file's number of places there are as many as can be needed."""
    many = Many()
    pairs, values = np.array([[1, 0]], np.float32), np.array([5], np.float32)
    inputs = [pairs, values, fixed(3, 3), scalar(0.0, np.float32)]
    many.add("SparseFillEmptyRows", inputs, filled(pairs, values, (3, 3), 0, 4))
    path = many.net.save(tmp_path)
    pairs, values = np.array([[2, 1], [0, 1]], np.float32), np.array([5, 6], np.float32)
    with Session(path, device="numpy") as session:
        found = session.run(dict(zip(many.feeds, (pairs, values), strict=True)))
    for result, wanted in zip(found.values(), filled(pairs, values, (3, 3), 0, 5), strict=True):
        assert np.array_equal(result, wanted)


def test_refused(tmp_path: Path) -> None:
    x, two, three = made(5, 2), np.zeros(2, np.int32), np.zeros(3, np.int32)
    refuse(tmp_path, NAMES[0], [x, two, three], [(2, 2)], None, "3 segments for 2")
    refuse(tmp_path, NAMES[1], [x, two, two], [(3, 2)], None, "the file says")
    pairs, size = np.zeros((2, 2), np.int32), fixed(3, 4)
    name = "ExperimentalSparseWeightedSum"
    refuse(tmp_path, name, [pairs, three, size, x, scalar(0)], [(3, 2)], None, "3 values for 2")
    refuse(tmp_path, name, [x, two, size, x, fixed(0, 1)], [(3, 2)], None, "3 values|2 values|more")
    refuse(tmp_path, name, [two, two, size, x, scalar(0)], [(3, 2)], None, "not \\[k, 2\\]")
    refuse(tmp_path, name, [pairs, two, fixed(3), x, scalar(0)], [(3, 2)], None, "1 sizes, not 2")
    many = fixed(2**30, 4)
    refuse(tmp_path, name, [pairs, two, many, x, scalar(0)], [(3, 2)], None, "1073741824 rows")
    name, shapes = "SparseFillEmptyRows", [(5, 2), (5,), (3,)]
    refuse(tmp_path, name, [pairs, three, size, scalar(0)], shapes, None, "3 values for 2")
    refuse(tmp_path, name, [pairs, two, fixed(0, 4), scalar(0)], shapes, None, "no dense shape")
    refuse(tmp_path, name, [pairs, two, size, fixed(0, 1)], shapes, None, "more than one default")
    name = "SparseToDense"
    refuse(tmp_path, name, [pairs, fixed(3, 4, 5), two], [(3, 4, 5)], None, "for 3 axes")
    refuse(tmp_path, name, [pairs, size, three], [(3, 4)], None, "for 2 indices")
    refuse(tmp_path, name, [pairs, size, two, fixed(0, 1)], [(3, 4)], None, "more than one")
