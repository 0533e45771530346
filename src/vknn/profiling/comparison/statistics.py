"""Statistics of two samples of times, with NumPy: Mann-Whitney, sums of signs, Holm, bootstrap."""

from __future__ import annotations

import math

import numpy as np

#: Resamples of the bootstrap. Its seed is fixed: the same files give the same words.
RESAMPLES = 2000
#: The most observations for which the distribution of U is counted out: below 2**53 orders.
_MOST_EXACT = 50
#: Steps that the median size of differences is divided into, so that sums can be counted.
_STEPS = 100


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


def signed_sum(differences: np.ndarray) -> float:
    """Two-sided p value of the test that differences of pairs do not lie about zero.

    Without a difference each sign is as likely as the other: so all ways of choosing the signs are
    counted, and how many of them make a sum as far from zero as what was found. In the sum those
    above the median size count as that size: a pair that something else disturbed must not outweigh
    the others, as it does in Wilcoxon's ranks. Such sums keep the test exact: Maritz 1979, "A note
    on exact robust confidence intervals for location". For many pairs the sum is taken for normal.

    Args:
        differences: One number of each pair, [n].

    Returns:
        From 0 to 1; 1 where no pair differs.
    """
    found = differences[differences != 0]
    n = len(found)
    if not n:
        return 1.0
    sizes = np.abs(found) / np.median(np.abs(found))
    steps = np.maximum(1, np.rint(np.minimum(sizes, 1.0) * _STEPS)).astype(np.int64)
    total, far = int(steps.sum()), abs(int((np.sign(found) * steps).sum()))
    if n <= _MOST_EXACT:
        # The sum is twice that of the positive ones, less the total.
        return min(1.0, 2 * float(_signs(steps)[(total + far + 1) // 2 :].sum()) / 2.0**n)
    return math.erfc(far / math.sqrt(2 * float((steps**2).sum())))


def least_p(n: int, m: int, paired: bool = False) -> float:
    """The smallest p value that the tests can give for so many observations, or pairs."""
    return signed_sum(np.ones(n)) if paired else mann_whitney(np.arange(n), np.arange(m) + n)


def _signs(steps: np.ndarray) -> np.ndarray:
    """Number of ways to choose among steps, for each sum of those chosen."""
    ways = np.zeros(int(steps.sum()) + 1, np.int64)
    ways[0] = 1
    for step in steps.tolist():
        ways[step:] += ways[:-step].copy()
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
