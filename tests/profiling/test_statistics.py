"""Statistics against counts of all orders, and against what they promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vknn.profiling.comparison import statistics


def exact(a: np.ndarray, b: np.ndarray) -> float:
    """p value by all ways to share out the observations."""
    values = np.concatenate([a, b])

    def u(chosen: tuple[int, ...]) -> float:
        mine = values[list(chosen)]
        others = np.delete(values, chosen)
        difference = mine[:, None] - others
        return abs(float((difference > 0).sum() + (difference == 0).sum() / 2) - middle)

    middle = len(a) * len(b) / 2
    seen = u(tuple(range(len(a))))
    all_ = [u(c) for c in itertools.combinations(range(len(values)), len(a))]
    return float(np.mean([value >= seen - 1e-9 for value in all_]))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 4), (5, 6), (3, 8)])
def test_small_samples_are_counted_out(n: int, m: int) -> None:
    rng = np.random.default_rng(n * m)
    for shift in (0.0, 1.0, 10.0):
        a, b = rng.normal(size=n), rng.normal(size=m) + shift
        assert statistics.mann_whitney(a, b) == pytest.approx(exact(a, b))
        assert statistics.mann_whitney(b, a) == pytest.approx(exact(a, b))


def test_ties_and_large_samples_are_near_the_exact_value() -> None:
    a = np.array([1.0, 1, 2, 2, 3, 3, 4])
    b = np.array([2.0, 3, 3, 4, 4, 5, 5])
    assert statistics.mann_whitney(a, b) == pytest.approx(exact(a, b), abs=0.02)
    rng = np.random.default_rng(0)
    large = rng.normal(size=25), rng.normal(size=25) + 0.6
    counted = statistics.mann_whitney(*large)
    doubled = [np.concatenate([x, [x[0]]]) for x in large]  # a tie: no more counting
    assert statistics.mann_whitney(*doubled) == pytest.approx(counted, rel=0.4)


def test_nothing_to_tell() -> None:
    assert statistics.mann_whitney(np.ones(5), np.ones(7)) == 1
    assert statistics.mann_whitney(np.ones(0), np.ones(7)) == 1
    assert statistics.mann_whitney(np.array([1.0]), np.array([2.0])) == 1
    assert statistics.least_p(5, 5) == pytest.approx(2 / 252)


def test_holm() -> None:
    found = statistics.holm(np.array([0.01, 0.04, 0.03, 0.005]))
    np.testing.assert_allclose(found, [0.03, 0.06, 0.06, 0.02])
    assert statistics.holm(np.zeros(0)).shape == (0,)
    assert statistics.holm(np.array([0.9, 0.8])).max() == 1


def test_p_values_of_equal_samples_are_spread_evenly() -> None:
    rng = np.random.default_rng(1)
    found = [statistics.mann_whitney(rng.normal(size=12), rng.normal(size=12)) for _ in range(400)]
    assert 0.02 <= np.mean(np.array(found) < 0.05) <= 0.08


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_hold_the_true_ratio(paired: bool) -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(100):
        a, b = (f * np.exp(rng.normal(0, 0.02, 30)) for f in (1.0, 1.1))
        _, low, high = statistics.paired_ratio(b / a) if paired else statistics.ratio(a, b)
        assert low <= high
        inside += low <= 1.1 <= high
    assert inside >= 85


def all_signs(differences: np.ndarray) -> float:
    """p value of the signed sum by all ways to give signs."""
    sizes = np.abs(differences) / np.median(np.abs(differences))
    steps = np.maximum(1, np.rint(np.minimum(sizes, 1) * 100))
    seen = abs(np.dot(np.sign(differences), steps))
    signs = itertools.product((-1, 1), repeat=len(steps))
    return float(np.mean([abs(np.dot(s, steps)) >= seen for s in signs]))


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_signs_of_few_pairs_are_counted_out(n: int) -> None:
    rng = np.random.default_rng(n)
    for shift in (0.0, 0.7, 9.0):
        found = rng.normal(size=n) + shift
        assert statistics.signed_sum(found) == pytest.approx(all_signs(found))
        assert statistics.signed_sum(-found) == pytest.approx(all_signs(found))
    assert statistics.signed_sum(np.ones(n) * np.arange(1, n + 1)) == pytest.approx(2 / 2**n)


def test_signs_of_many_pairs_and_of_ties() -> None:
    assert statistics.signed_sum(np.zeros(4)) == 1
    rng = np.random.default_rng(0)
    found = rng.normal(size=50) + 0.4
    counted = statistics.signed_sum(found)
    assert statistics.signed_sum(np.append(found, 0)) == counted
    assert statistics.signed_sum(np.append(found, found[0])) == pytest.approx(counted, rel=0.5)
    assert statistics.least_p(6, 6, paired=True) == pytest.approx(2 / 64)


def test_a_disturbed_pair_does_not_outweigh_the_others() -> None:
    found = np.linspace(0.08, 0.12, 18)
    disturbed = np.append(found[:-1], -3.0)
    assert statistics.signed_sum(disturbed) < 0.05 / 57
    assert statistics.signed_sum(np.append(found[:-1], -0.12)) == statistics.signed_sum(disturbed)


def test_signs_of_equal_sides_are_spread_evenly() -> None:
    rng = np.random.default_rng(3)
    found = [statistics.signed_sum(rng.normal(size=20)) for _ in range(400)]
    assert 0.02 <= np.mean(np.array(found) < 0.05) <= 0.08
