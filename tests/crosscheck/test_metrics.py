"""Metrics of an array: numbers known by hand, and places that are named."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vknn.crosscheck import Allowance, ArrayMetrics, MetricError, measure
from vknn.crosscheck.metrics import named_metrics, ulps
from vknn.crosscheck.places import channel_axis, concentration, error_map


def measured(actual: np.ndarray, expected: np.ndarray, allowed: float = 0.1) -> ArrayMetrics:
    found = measure(actual, expected, Allowance(np.abs(expected), np.full(1, allowed)))
    assert found is not None
    return found


def test_numbers_known_by_hand() -> None:
    expected = np.array([3.0, 4.0, 0.0, 0.0], np.float32)
    actual = np.array([3.0, 4.0, 0.5, 0.25], np.float32)
    found = measured(actual, expected)
    assert found.elements == 4
    assert found.absolute.mean == pytest.approx(0.1875)
    assert found.absolute.median == 0.25  # the higher of the two in the middle
    assert found.absolute.largest == found.absolute.p999 == 0.5
    assert found.of_limit.largest == pytest.approx(5)
    assert found.over == 2
    assert found.first == (2,)
    assert found.cosine == pytest.approx(25 / (5 * math.sqrt(25.3125)))
    assert found.snr_db == pytest.approx(10 * math.log10(25 / 0.3125))
    assert found.histogram is not None
    assert sum(found.histogram.expected) == sum(found.histogram.actual) == 4
    assert (found.histogram.low, found.histogram.high) == (0, 4)
    assert found.histogram.expected[0] == 2
    assert found.histogram.actual[2] == 1  # 0.25 in bars of an eighth


def test_percentile_of_many() -> None:
    expected = np.zeros(10_000, np.float32)
    actual = expected.copy()
    actual[:5] = 7  # a half per mille
    found = measured(actual, expected)
    assert (found.absolute.p999, found.absolute.largest) == (0, 7)
    actual[:11] = 7
    assert measured(actual, expected).absolute.p999 == 7


def test_equal_arrays_are_silent() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
    found = measured(x, x)
    assert (found.over, found.first, found.where) == (0, None, "")
    assert (found.cosine, found.snr_db) == (pytest.approx(1), math.inf)
    assert found.ulps is not None and found.ulps.largest == 0
    assert found.not_finite.first is None


@pytest.mark.parametrize(
    ("held", "near"), [("fp32", 2.0**-23), ("fp16", 2.0**-10), ("bf16", 2.0**-7)]
)
def test_ulps_are_of_the_dtype_held(held: str, near: float) -> None:
    one = np.ones(2, np.float32)
    assert ulps(one + np.float32(3 * near), one, held).tolist() == [3, 3]


def test_ulps_of_other_dtypes_and_across_zero() -> None:
    least = np.float32(1.4e-45)
    assert ulps(np.array([least]), np.array([-least])).tolist() == [2]
    assert ulps(np.float16([1 + 2.0**-10]), np.float16([1])).tolist() == [1]
    assert ulps(np.array([1 + 2.0**-52]), np.array([1.0])).tolist() == [1]
    assert ulps(np.array([-1e300]), np.array([1e300]))[0] > 2.0**63
    assert ulps(np.array([250], np.uint8), np.array([3], np.uint8)).tolist() == [247]


def test_a_channel_is_named() -> None:
    expected = np.ones((1, 8, 6, 6), np.float32)
    actual = expected.copy()
    actual[0, 5, ::2] += 1
    found = measured(actual, expected)
    assert found.where == "channel 5; row 0, 2, 4 (every 2)"
    assert found.channels is not None and found.channels.axis == 1
    assert found.channels.values[5] == pytest.approx(10)
    assert sum(v > 0 for v in found.channels.values) == 1


def test_a_seam_is_named() -> None:
    expected = np.ones((4, 32, 40), np.float32)
    actual = expected.copy()
    actual[:, :, 7::8] += 1
    found = measured(actual, expected)
    assert found.where == "column 7, 15, 23, 31, ... (every 8)"
    assert found.places is not None
    assert (found.places.size, found.places.step) == ((32, 40), (1, 2))
    assert [v > 0 for v in found.places.values[0]] == [c % 4 == 3 for c in range(20)]


def test_both_sides_of_a_seam_and_an_edge() -> None:
    over = np.zeros((3, 33, 64), bool)
    over[:, :, 15::16] = over[:, :, 16::16] = True
    assert concentration(over) == "column 15, 16, 31, 32, ... (every 16)"
    edge = np.zeros((3, 33, 64), bool)
    edge[:, -1] = True
    assert concentration(edge) == "row 32"
    assert concentration(np.ones((3, 4), bool)) == ""


def test_scattered_errors_have_no_place() -> None:
    over = np.random.default_rng(0).random((16, 64, 64)) < 0.1
    assert concentration(over) == ""


def test_axes_of_channels() -> None:
    assert channel_axis((2, 8, 5, 5)) == channel_axis((2, 8, 5, 5, 5)) == 1
    assert channel_axis((8, 5, 5)) == 0
    assert channel_axis((1, 7, 64)) == 2
    assert channel_axis((5, 10)) == 1
    assert channel_axis(()) is None


def test_maps_are_small_and_keep_the_largest() -> None:
    errors = np.zeros((3, 500, 700))
    errors[1, 499, 350] = 4
    found = error_map(errors)
    assert found is not None
    assert found.step == (16, 22)
    assert len(found.values) == 32 and len(found.values[0]) == 32
    assert found.values[31][350 // 22] == 4
    assert np.sum(found.values) == 4


def test_nan_and_infinities() -> None:
    expected = np.array([1, np.nan, np.inf, 2, 3], np.float32)
    actual = np.array([1, np.nan, np.inf, np.nan, -np.inf], np.float32)
    found = measured(actual, expected)
    assert found.over == 2
    nonfinite = found.not_finite
    assert (nonfinite.nan, nonfinite.infinite) == (2, 2)
    assert (nonfinite.expected_nan, nonfinite.expected_infinite) == (1, 1)
    assert nonfinite.first == (3,)
    assert found.absolute.largest == math.inf
    assert found.cosine == pytest.approx(1)  # of what is finite on both sides


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    found = measure(x, x, Allowance(x, np.zeros(1)))
    assert (found is None) == (x.size == 0)


def test_arrays_that_cannot_be_compared_have_none() -> None:
    x = np.ones(3, np.float32)
    for other in (np.ones(4, np.float32), np.ones(3)):
        assert measure(x, other, Allowance(x, np.zeros(1))) is None


def test_extreme_numbers_do_not_overflow() -> None:
    x = np.full(100, 3e38, np.float32)
    y = x.astype(np.float64) * 1e269
    for array in (x, y):
        found = measured(array, array / 2)
        assert found.cosine == pytest.approx(1)
        assert found.snr_db == pytest.approx(0)


def test_functions_of_ones_own() -> None:
    x = np.arange(3.0)
    own = named_metrics([lambda a, b: 1.5, lambda a, b: (a - b).sum()])
    found = measure(x + 1, x, Allowance(x, np.ones(1)), "fp32", own)
    assert found is not None and list(found.own.values()) == [1.5, 3.0]
    with pytest.raises(MetricError, match=r"metric 'bad' failed .* \[3\]: ZeroDivisionError"):
        measure(x, x, Allowance(x, np.ones(1)), "fp32", {"bad": lambda a, b: 1 / 0})
    with pytest.raises(MetricError, match="metric 'bad' failed"):
        measure(x, x, Allowance(x, np.ones(1)), "fp32", {"bad": lambda a, b: "much"})  # type: ignore[arg-type, return-value]


def test_a_function_cannot_change_the_arrays() -> None:
    x = np.arange(3.0)

    def spoiling(a: np.ndarray, b: np.ndarray) -> float:
        a[:] = b[:] = 9
        return 0

    measure(x, x.copy(), Allowance(x, np.ones(1)), "fp32", {"spoiling": spoiling})
    assert x.tolist() == [0, 1, 2]
