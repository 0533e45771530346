"""Metrics of an array against the reference's: what the largest error alone does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn import bfloat16
from vknn.crosscheck.deviations import absolute_errors, multiples
from vknn.crosscheck.places import (
    ChannelErrors,
    ErrorMap,
    channel_errors,
    concentration,
    error_map,
)
from vknn.crosscheck.tolerance import Allowance
from vknn.errors import VknnError


class MetricError(VknnError):
    """A function of one's own failed, or gave no number."""


#: Bars of a histogram.
BARS = 32
#: A function of one's own: of the device's array and the reference's, to a number.
Metric = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class ErrorSpread:
    """Errors of all elements in four numbers; infinite where only one side is NaN or infinite.

    ``p999``: the 99.9th percentile.
    """

    mean: float
    median: float
    p999: float
    largest: float


@dataclass(frozen=True)
class ErrorHistogram:
    """Numbers of both sides that are finite, counted in bars of one width.

    Attributes:
        low: Lower edge of the first bar.
        high: Upper edge of the last.
        expected: Elements of the reference in each bar.
        actual: Elements of the device's result.
    """

    low: float
    high: float
    expected: tuple[int, ...]
    actual: tuple[int, ...]


@dataclass(frozen=True)
class NotFinite:
    """Elements that are NaN or infinite.

    Attributes:
        nan: How many the device has.
        infinite: Likewise.
        expected_nan: How many the reference has.
        expected_infinite: Likewise.
        first: Index of the first that the device has where the reference has a number, else None.
    """

    nan: int = 0
    infinite: int = 0
    expected_nan: int = 0
    expected_infinite: int = 0
    first: tuple[int, ...] | None = None

    @property
    def kind(self) -> str:
        """Kind of number that the device has."""
        return "NaN" if self.nan > self.expected_nan else "infinity"


@dataclass(frozen=True)
class ArrayMetrics:
    """Metrics of an array.

    Attributes:
        elements: Number of elements.
        absolute: Absolute errors.
        of_limit: Errors as multiples of what is allowed.
        ulps: Errors counted in numbers of the dtype that the device holds: those of float16 and
            bfloat16 in these precisions. Of elements that are finite on both sides; of integers
            the differences.
        cosine: Cosine of the angle between both sides, of elements finite on both.
        snr_db: Signal-to-noise ratio in dB, of the same elements; infinite where there is no error.
        over: Elements over tolerance.
        first: Index of the first of these, in order of memory; None where there is none.
        where: The few channels, rows or columns that hold all of these, in words.
        not_finite: NaN and infinities.
        channels: Errors by channel.
        places: Errors by row and column.
        histogram: Numbers of both sides; None where none is finite.
        own: Results of functions of one's own, by name.
    """

    elements: int
    absolute: ErrorSpread
    of_limit: ErrorSpread
    ulps: ErrorSpread | None
    cosine: float
    snr_db: float
    over: int
    first: tuple[int, ...] | None
    where: str
    not_finite: NotFinite
    channels: ChannelErrors | None = field(repr=False)
    places: ErrorMap | None = field(repr=False)
    histogram: ErrorHistogram | None = field(repr=False)
    own: dict[str, float] = field(default_factory=dict)


def measure(
    actual: np.ndarray,
    expected: np.ndarray,
    allowance: Allowance,
    held: str = "fp32",
    own: Mapping[str, Metric] | None = None,
) -> ArrayMetrics | None:
    """Metrics of an array; None of arrays that cannot be compared by element, or have none.

    Args:
        actual: The device's.
        expected: The reference's.
        allowance: Errors that are allowed.
        held: Precision in which the device stores floats: "fp32", "fp16" or "bf16".
        own: Functions of one's own by name.

    Raises:
        MetricError: A function of one's own fails, or gives no number.
    """
    alike = actual.shape == expected.shape and actual.dtype == expected.dtype
    if not alike or not expected.size or expected.dtype.kind not in "fiub":
        return None
    error = absolute_errors(actual, expected)
    with np.errstate(all="ignore"):
        excess = multiples(error, allowance.allowed)
    excess = np.where(np.isnan(excess), np.inf, excess)
    over = excess > 1.0
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    return ArrayMetrics(
        elements=expected.size,
        absolute=_spread(error),
        of_limit=_spread(excess),
        ulps=_spread(ulps(actual[finite], expected[finite], held)) if finite.any() else None,
        cosine=_cosine(a[finite], b[finite]),
        snr_db=_snr(b[finite], error[finite]),
        over=int(over.sum()),
        first=_first(over),
        where=concentration(over),
        not_finite=_not_finite(a, b),
        channels=channel_errors(excess),
        places=error_map(excess),
        histogram=_histogram(a, b),
        own={name: applied(name, f, actual, expected) for name, f in (own or {}).items()},
    )


def ulps(actual: np.ndarray, expected: np.ndarray, held: str = "fp32") -> np.ndarray:
    """Distances in numbers that a dtype has between both, float64; of integers the differences.

    ``held``: the precision in which floats are stored; narrower ones keep their own dtype.
    """
    if expected.dtype.kind != "f":
        return np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    a, b = _ordinals(actual, held), _ordinals(expected, held)
    with np.errstate(over="ignore"):
        near = np.abs(a - b).astype(np.float64)
    # On either side of zero the distance of float64 may have no int64.
    return np.where((a < 0) == (b < 0), near, np.abs(a.astype(np.float64) - b.astype(np.float64)))


def _ordinals(array: np.ndarray, held: str) -> np.ndarray:
    """The place of each float among those that there are, zero's being 0."""
    wide = array.dtype.itemsize > 2
    if held == "bf16" and wide:
        bits = bfloat16.bits_of(array)
    else:
        with np.errstate(all="ignore"):
            kept = array.astype(np.float16) if held == "fp16" and wide else array
        bits = np.ascontiguousarray(kept).view(f"u{kept.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    size = (bits & ~sign).astype(np.int64)
    return np.where(bits & sign, -size, size)


def applied(name: str, metric: Metric, actual: np.ndarray, expected: np.ndarray) -> float:
    """The number that a function of one's own gives for two arrays. Raises MetricError."""
    try:
        return float(metric(actual.copy(), expected.copy()))
    except Exception as error:
        raise MetricError(
            f"metric {name!r} failed for arrays of {expected.dtype} {list(expected.shape)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def named_metrics(metric: Metric | Sequence[Metric] | Mapping[str, Metric]) -> dict[str, Metric]:
    """Functions of one's own by name: those of a mapping, else their own names."""
    if isinstance(metric, Mapping):
        return dict(metric)
    found: dict[str, Metric] = {}
    for number, f in enumerate(metric if isinstance(metric, Sequence) else [metric]):
        name = getattr(f, "__name__", "metric")
        found[f"{name} {number}" if name in found else name] = f
    return found


def _spread(errors: np.ndarray) -> ErrorSpread:
    flat = errors.reshape(-1)
    # Interpolation would make NaN of infinities.
    median, p999 = np.quantile(flat, (0.5, 0.999), method="higher")
    largest = float(flat.max())
    scale = largest if 0.0 < largest < np.inf else 1.0  # sums of huge numbers overflow
    mean = float((flat / scale).mean()) * scale
    return ErrorSpread(mean, float(median), float(p999), largest)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    """1 of two zeros, 0 where only one is zero; scaled so that no square overflows."""
    largest = [float(np.abs(x).max(initial=0.0)) for x in (a, b)]
    if not all(largest):
        return float(largest[0] == largest[1])
    a, b = a / largest[0], b / largest[1]
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _snr(expected: np.ndarray, error: np.ndarray) -> float:
    largest = float(np.abs(expected).max(initial=0.0))
    noise = float(np.abs(error).max(initial=0.0))
    if not noise or not largest:
        return float("-inf") if noise else float("inf")
    signal, rest = expected / largest, error / noise
    power = np.log10((signal @ signal) / (rest @ rest)) + 2 * np.log10(largest / noise)
    return float(10 * power)


def _first(mask: np.ndarray) -> tuple[int, ...] | None:
    flat = int(np.argmax(mask))
    if not mask.reshape(-1)[flat]:
        return None
    return tuple(int(i) for i in np.unravel_index(flat, mask.shape))


def _not_finite(a: np.ndarray, b: np.ndarray) -> NotFinite:
    return NotFinite(
        int(np.isnan(a).sum()),
        int(np.isinf(a).sum()),
        int(np.isnan(b).sum()),
        int(np.isinf(b).sum()),
        _first(~np.isfinite(a) & np.isfinite(b)),
    )


def _histogram(a: np.ndarray, b: np.ndarray) -> ErrorHistogram | None:
    """Bars over the range of the reference and of the device's result together."""
    real = [x[np.isfinite(x)] for x in (a, b)]
    if not any(x.size for x in real):
        return None
    low = min(float(x.min()) for x in real if x.size)
    high = max(float(x.max()) for x in real if x.size)
    width = (high / BARS - low / BARS) or 1.0
    counts = []
    for x in real:
        bars = np.clip(((x / 2 - low / 2) / (width / 2)).astype(np.int64), 0, BARS - 1)
        counts.append(tuple(int(n) for n in np.bincount(bars, minlength=BARS)))
    return ErrorHistogram(low, high, expected=counts[1], actual=counts[0])
