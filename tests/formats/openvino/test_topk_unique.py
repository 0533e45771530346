"""ArgMax in both forms, TopK, Unique."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, refuse, scalar

from vknn.errors import ModelFormatError

DTYPES = (np.float32, np.int32, np.uint8, np.int64)


def top(x: np.ndarray, k: int, axis: int, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Values and indices, best first; of equal ones the lower index first."""
    keys = -x.astype(np.float64) if largest else x.astype(np.float64)
    order = np.take(np.argsort(keys, axis, kind="stable"), np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_argmax_along_an_axis(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(0)
    for rank in range(1, 6):
        x = rng.integers(-9, 9, (4, 3, 5, 2, 3)[:rank]).astype(np.float32)
        for axis in range(-rank, rank):
            for k in {1, 2, x.shape[axis]}:
                values, indices = top(x, k, axis)
                given = {"axis": axis, "top_k": k}
                many.add("ArgMax", [x], indices.astype(np.float32), given | {"out_max_val": 0})
                many.add("ArgMax", [x], values, given | {"out_max_val": "true"})
        many.add("ArgMax", [x], top(x, 1, 0)[1], {"axis": 0, "top_k": 1})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_argmax_of_images(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(1)
    for shape in ((2, 3, 4, 5), (1, 7), (3, 2, 2), (2, 2, 3, 1, 2)):
        x = rng.integers(-9, 9, shape).astype(np.float32)
        flat = x.reshape(shape[0], 1, -1)
        for k in (1, 3):
            values, indices = top(flat, k, 2)
            both = np.concatenate([indices.astype(np.float32), values], 1)
            many.add("ArgMax", [x], indices.astype(np.float32), {"top_k": k, "out_max_val": 0})
            many.add("ArgMax", [x], both, {"top_k": k, "out_max_val": 1})
            many.add("ArgMax", [x], both[..., None], {"top_k": k, "out_max_val": 1})
            many.add("ArgMax", [x], indices[:, 0].astype(np.float32), {"top_k": k})
            many.add("ArgMax", [x], indices[..., None].astype(np.float32), {"top_k": k})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["max", "min"])
def test_top_k(mode: str, backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(2)
    for rank, sort in itertools.product(range(1, 6), ("value", "index", "none")):
        for axis in range(-rank, rank):
            dtype = DTYPES[axis % 4] if rank == 3 else np.float32
            x = rng.integers(0, 6, (4, 3, 5, 2, 3)[:rank]).astype(dtype)
            for k in (1, x.shape[axis] - 1, x.shape[axis]):
                values, indices = top(x, k, axis, mode == "max")
                if sort == "index":
                    indices = np.sort(indices, axis)
                    values = np.take_along_axis(x, indices, axis)
                kinds = (scalar(k), Fixed(np.array([k], np.int64)))
                given = {"axis": axis, "mode": mode, "sort": sort}
                many.add("TopK", [x, kinds[k % 2]], [values, indices], given)
    x = rng.standard_normal((2, 500)).astype(np.float32)
    values, indices = top(x, 40, 1, mode == "max")
    given = {"mode": mode, "sort": "value"}
    many.add("TopK", [x, scalar(40)], [values, indices], given)
    many.add("TopK", [x, scalar(40)], [values, indices.astype(np.float32)], given)
    many.add("TopK", [x, scalar(40)], [values, indices.astype(np.int64)], given)
    many.add("TopK", [x, scalar(40)], values, given)
    many.check(backend, tmp_path)


def test_k_at_run_time(tmp_path: Path) -> None:
    many = Many()
    x = np.array([3, 1, 2, 5], np.float32)
    given = {"axis": 0, "mode": "max", "sort": "value"}
    many.add("TopK", [x, np.array(2, np.int32)], list(top(x, 2, 0)), given)
    many.check("numpy", tmp_path)


def different(x: np.ndarray, ascending: bool) -> list[np.ndarray]:
    """As many places as x has: the different elements, which each is, how many there are."""
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.arange(len(values)) if ascending else np.argsort(first)
    rank = np.argsort(order)
    tail = len(x) - len(values)
    values, counts = values[order], counts[order]
    return [
        np.append(values, np.repeat(values[-1:], tail)),
        rank[inverse].astype(x.dtype),
        np.append(counts, np.zeros(tail)).astype(x.dtype),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ascending", [True, False], ids=["sorted", "in_order"])
def test_unique(ascending: bool, backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(3)
    for inverse, counts in itertools.product((True, False), repeat=2):
        for count, most in ((1, 9), (2, 1), (2, 50), (8, 100), (20, 6), (100, 20), (37, 1)):
            for dtype in (np.float32, np.int32, np.int64)[: 1 + 2 * (inverse and counts)]:
                x = rng.integers(-most, most, count).astype(dtype)
                values, which, each = different(x, ascending)
                wanted = [values, *[which] * inverse, *[each] * counts]
                given = {"sorted": ascending, "return_inverse": inverse, "return_counts": counts}
                many.add("Unique", [x], wanted, given)
    x = rng.integers(0, 90, 700).astype(np.float32) / 7
    given = {"sorted": ascending, "return_inverse": True, "return_counts": True}
    many.add("Unique", [x], different(x, ascending), given)
    halves = np.array([0.5, -0.5, 0.25, -0.5, 1e-30, 3e38], np.float32)
    values, which, each = different(halves, ascending)
    many.add("Unique", [halves], [values, which.astype(np.int32), each.astype(np.int32)], given)
    many.add("Unique", [halves], [values], given)  # ports that nobody wants are left out
    many.check(backend, tmp_path)


def test_refused(tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    refuse(tmp_path, "ArgMax", [x], [(2, 4)], {"axis": 1, "top_k": 4}, "top 4 of 3")
    refuse(tmp_path, "ArgMax", [x], [(2, 1, 7)], {"top_k": 7}, "top 7 of 3")
    refuse(tmp_path, "ArgMax", [x], [(2, 1)], {"axis": 2, "top_k": 1}, "axis 2")
    refuse(tmp_path, "ArgMax", [x], [(2, 1)], {"axis": 1}, "no top_k", ModelFormatError)
    refuse(tmp_path, "ArgMax", [x], [(2, 1)], {"top_k": 1, "out_max_val": "maybe"}, "maybe")
    given = {"axis": 1, "mode": "max", "sort": "value"}
    two = [(2, 2), (2, 2)]
    refuse(tmp_path, "TopK", [x, scalar(4)], two, given, "top 4 of 3")
    refuse(tmp_path, "TopK", [x, scalar(0)], two, given, "top 0 of 3")
    refuse(tmp_path, "TopK", [x, Fixed(np.array([1, 2], np.int32))], two, given, "k has 2")
    refuse(tmp_path, "TopK", [x, scalar(2)], two, given | {"mode": "best"}, "not one of")
    refuse(tmp_path, "TopK", [x, scalar(2)], two, {"mode": "max"}, "no sort", ModelFormatError)
    refuse(tmp_path, "TopK", [x, scalar(2)], two, given | {"axis": -3}, "axis -3")
    flags = {"sorted": "true", "return_inverse": "false", "return_counts": "false"}
    refuse(tmp_path, "Unique", [x], [(6,)], flags, "takes a vector")
    line = np.zeros(3, np.float32)
    refuse(tmp_path, "Unique", [line], [(3,), (3,)], flags, "2 outputs, not 1")
    refuse(
        tmp_path,
        "Unique",
        [line],
        [(3,)],
        {"sorted": "true"},
        "no return_inverse",
        ModelFormatError,
    )
