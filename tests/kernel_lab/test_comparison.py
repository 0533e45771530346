"""Comparison of outputs: places in the tensor's own terms, for every layout."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.kernel_lab.comparison import Expected, OutputCheck, check_output
from vknn.kernel_lab.description import LabTensor
from vknn.lowering.kit.layouts import Layout, pack

DIMS = (2, 6, 3, 5)


def check(
    actual: np.ndarray,
    right: np.ndarray,
    layout: str = "linear",
    dims: tuple[int, ...] | None = DIMS,
    allowed: float = 0.5,
    **options: np.ndarray | None,
) -> OutputCheck:
    tensor = None if dims is None else LabTensor(str(right.dtype), dims, layout)
    expected = Expected(
        right, np.full(right.shape, allowed), right, "numpy", options.get("written"), tensor,
        str(right.dtype),
    )  # fmt: skip
    return check_output(1, "y", actual, expected, options.get("untouched"), 0)


@pytest.mark.parametrize("layout", ["linear", "c4"])
@pytest.mark.parametrize("place", [(0, 0, 0, 0), (1, 5, 2, 4), (0, 4, 1, 3)])
def test_the_place_of_a_fault(layout: str, place: tuple[int, ...]) -> None:
    right = np.random.default_rng(0).standard_normal(DIMS).astype(np.float32)
    wrong = right.copy()
    wrong[place] += 1
    found = check(*(pack(x, Layout(layout)).ravel() for x in (wrong, right)), layout)
    assert (found.first, found.wrong, found.channels) == (place, 1, ((place[1], 1),))
    assert found.excess == pytest.approx(2, rel=1e-5)
    assert not found.ok


def test_many_channels_are_counted() -> None:
    right = np.zeros((1, 20, 2), np.float32)
    wrong = right.copy()
    wrong[:, 3:15] = 9
    found = check(wrong.ravel(), right.ravel(), dims=(1, 20, 2))
    assert found.all_channels == 12
    assert len(found.channels) == 8
    assert "channel" not in found.summary()


def test_nan_and_infinity() -> None:
    right = np.array([np.nan, np.inf, 1, 2], np.float32)
    assert check(right.copy(), right, dims=None).ok
    for number in (np.nan, -np.inf):
        wrong = right.copy()
        wrong[2] = number
        found = check(wrong, right, dims=None)
        assert (found.first, found.max_abs, found.channels) == ((2,), np.inf, ())


def test_integers_are_exact() -> None:
    right = np.arange(8, dtype=np.int32)
    found = check(right + (right == 5), right, dims=None, allowed=0.0)
    assert (found.first, found.wrong, found.actual, found.expected) == ((5,), 1, 6.0, 5.0)


def test_what_was_not_written_and_what_should_not_be() -> None:
    right = np.zeros(6, np.float32)
    actual = np.array([0, np.nan, 0, 7, np.nan, 0], np.float32)
    written = np.array([True, True, True, False, False, True])
    found = check(actual, right, dims=None, written=written, untouched=np.isnan(actual))
    assert (found.wrong, found.unwritten, found.strayed, found.count) == (1, 1, 1, 4)
    assert not found.ok
    assert "1 were not written" in found.summary()
    assert "1 elements written that are not the kernel's" in found.summary()
