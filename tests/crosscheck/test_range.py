"""Range of numbers that a search makes claims about."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.crosscheck.mutations import FLOATS, INTEGERS, mutated
from vknn.crosscheck.range import OutOfRangeError, RangeLimit, any_faint, flushed, magnitude
from vknn.graph import TensorType, Value
from vknn.ops.elementwise import Relu


def test_magnitudes() -> None:
    assert magnitude(np.float32([-3, 2])) == 3
    assert magnitude(np.float32([1, np.nan])) == magnitude(np.float32([-np.inf])) == np.inf
    assert magnitude(np.array([9])) == magnitude(np.zeros(0, np.float32)) == 0


def test_values_beyond_the_limit_are_learned_and_then_refused() -> None:
    mask, other = (Value(name, TensorType((1,)), None, None) for name in ("mask", "other"))
    low, one = np.float32([-np.inf]), np.float32([1])
    limit = RangeLimit(100.0)
    limit.check({mask: low, other: one})
    limit.learning = False
    limit.check({mask: low, other: one})
    with pytest.raises(OutOfRangeError):
        limit.check({mask: low, other: 101 * one})


def test_zeros_for_subnormal_inputs_are_right_and_nothing_else() -> None:
    x = np.float32([1e-40, 2.0, 1e-40, -1.0])
    goal = x.clip(0)
    found = np.float32([0, 2.5, 1e-40, 1.0])
    held = flushed(Relu(), [x], 0, found, goal)
    assert held.tolist() == [0.0, 2.0, found[2], 0.0]
    assert any_faint([np.float32([1e-38, 0])])
    assert not any_faint([np.float32([1e-38, 1]), np.zeros(2, np.float32)])


@pytest.mark.parametrize("kind", [*FLOATS])
def test_mutations_of_floats(kind: str) -> None:
    first = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    kept = first["x"].copy()
    changed = 0
    for seed in range(20):
        found, name = mutated(np.random.default_rng(seed), first, first, kind)
        assert name == kind
        assert found["x"].dtype == np.float32 and found["x"].shape == (2, 3, 4)
        assert np.isfinite(found["x"]).all()
        changed += not np.array_equal(found["x"], first["x"])
    np.testing.assert_array_equal(first["x"], kept)
    assert changed > 10 or kind == "mix"  # what is mixed with itself stays


@pytest.mark.parametrize("kind", [*INTEGERS])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_integers_stay_indices(kind: str, dtype: type) -> None:
    first = {"x": np.array([[0, 1, 1, 0, 1]], dtype)}
    for seed in range(20):
        found, _ = mutated(np.random.default_rng(seed), first, first, kind)
        assert found["x"].dtype == dtype and found["x"].shape == (1, 5)
        allowed = {0, 255} if kind == "bytes" and dtype is np.uint8 else {0, 1}
        assert set(found["x"].reshape(-1).tolist()) <= allowed


def test_odd_arrays() -> None:
    feeds = {"none": np.zeros((0, 3), np.float32), "text": np.array(["a"], object)}
    assert mutated(np.random.default_rng(0), feeds, feeds) == (feeds, "none")
    feeds = {"scalar": np.array(2.0)}
    for seed in range(40):
        assert mutated(np.random.default_rng(seed), feeds, feeds)[0]["scalar"].shape == ()
