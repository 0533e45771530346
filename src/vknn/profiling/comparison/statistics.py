"""Statistics of two samples of times, with NumPy: Mann-Whitney, Wilcoxon, Holm, bootstrap."""

from __future__ import annotations

import math

import numpy as np

#: Resamples of the bootstrap. Its seed is fixed: the same files give the same words.
RESAMPLES = 2000
#: The most observations for which the distribution of U is counted out: below 2**53 orders.
_MOST_EXACT = 50


def mann_whitney(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p value of the test that neither of two samples tends to larger values.

    Mann and Whitney 1947, "On a test of whether one of two random variables is stochastically
    larger than the other", whose recurrence gives the exact distribution of U for small samples
    without ties. Else the normal approximation with the correction for ties of Lehmann 1975,
    "Nonparametrics: statistical methods based on ranks", section 1.4, and that for continuity.

    Args:
        a: Numbers of the first sample, [n].
        b: Numbers of the second sample, [m].

    Returns:
        From 0 to 1; 1 where a sample is empty or all numbers are the same.
    """
    n, m = len(a), len(b)
    if not n or not m:
        return 1.0
    values, places, ties = np.unique(
        np.concatenate([a, b]), return_inverse=True, return_counts=True
    )
    if len(values) == 1:
        return 1.0
    ranks = np.cumsum(ties) - (ties - 1) / 2
    u = float(ranks[places[:n]].sum()) - n * (n + 1) / 2
    u = min(u, n * m - u)
    if len(values) == n + m <= _MOST_EXACT:
        orders = _orders(n, m)
        return min(1.0, 2 * float(orders[: round(u) + 1].sum()) / float(orders.sum()))
    count = n + m
    tied = float((ties.astype(float) ** 3 - ties).sum()) / (count * (count - 1))
    deviation = math.sqrt(n * m / 12 * (count + 1 - tied))
    z = max(0.0, n * m / 2 - u - 0.5) / deviation
    return math.erfc(z / math.sqrt(2))


def signed_rank(differences: np.ndarray) -> float:
    """Two-sided p value of the test that differences of pairs do not lie about zero.

    Wilcoxon 1945, "Individual comparisons by ranking methods"; differences of zero are left out.
    For few pairs without ties all signs are counted out. Else the normal approximation with the
    correction for ties of Lehmann 1975, "Nonparametrics: statistical methods based on ranks",
    section 3.2, and that for continuity.

    Args:
        differences: One number of each pair, [n].

    Returns:
        From 0 to 1; 1 where no pair differs.
    """
    found = differences[differences != 0]
    n = len(found)
    if not n:
        return 1.0
    sizes, places, ties = np.unique(np.abs(found), return_inverse=True, return_counts=True)
    ranks = np.cumsum(ties) - (ties - 1) / 2
    above = float(ranks[places[found > 0]].sum())
    smaller = min(above, n * (n + 1) / 2 - above)
    if len(sizes) == n <= _MOST_EXACT:
        return min(1.0, 2 * float(_signs(n)[: round(smaller) + 1].sum()) / 2.0**n)
    tied = float((ties.astype(float) ** 3 - ties).sum()) / 48
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24 - tied)
    z = max(0.0, n * (n + 1) / 4 - smaller - 0.5) / deviation
    return math.erfc(z / math.sqrt(2))


def least_p(n: int, m: int, paired: bool = False) -> float:
    """The smallest p value that the tests can give for so many observations, or pairs."""
    return signed_rank(np.arange(n) + 1) if paired else mann_whitney(np.arange(n), np.arange(m) + n)


def _signs(n: int) -> np.ndarray:
    """Number of ways to choose among the ranks 1 to n, for each sum of those chosen."""
    ways = np.zeros(n * (n + 1) // 2 + 1, np.int64)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return ways


def _orders(n: int, m: int) -> np.ndarray:
    """Number of orders of n and m observations for each U: the Gaussian binomial coefficients."""
    orders = np.zeros(n * m + 1, np.int64)
    orders[0] = 1
    for k in range(1, m + 1):
        # Times 1 - q**(n + k), and then over 1 - q**k.
        if n + k < len(orders):
            orders[n + k :] -= orders[: -(n + k)].copy()
        for place in range(k, len(orders)):
            orders[place] += orders[place - k]
    return orders


def holm(p: np.ndarray) -> np.ndarray:
    """p values held against their number: below a level, any one of them is wrong that often.

    Holm 1979, "A simple sequentially rejective multiple test procedure".

    Args:
        p: p values, [n].

    Returns:
        Adjusted values, [n], from 0 to 1.
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def paired_ratio(ratios: np.ndarray) -> tuple[float, float, float]:
    """Median of the ratios of pairs [n], and its 95 % interval; pairs are resampled.

    The percentile method of Efron 1979, "Bootstrap methods: another look at the jackknife".
    """
    drawn = _rng().integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[drawn], axis=1), (2.5, 97.5))
    return float(np.median(ratios)), float(low), float(high)


def ratio(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Ratio of the medians of b [m] and a [n], and its 95 % interval, as :func:`paired_ratio`."""
    rng = _rng()
    drawn = [
        np.median(side[rng.integers(0, len(side), (RESAMPLES, len(side)))], axis=1)
        for side in (a, b)
    ]
    low, high = np.percentile(drawn[1] / drawn[0], (2.5, 97.5))
    return float(np.median(b) / np.median(a)), float(low), float(high)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
