from __future__ import annotations

import numpy as np

from vknn.ops.detection.order import in_order_of
from vknn.ops.detection.ssd import DetectionOutput
from vknn.ops.detection.yolo import YoloDetection
from vknn.ops.elementwise import Relu

DETECTION = YoloDetection(2, 1, 0.5, 0.5, (1.0, 1.0), (0,), (1.0,))


def rows(*confidences: float) -> np.ndarray:
    table = np.random.default_rng(0).uniform(0, 1, (1, len(confidences), 6))
    table[0, :, 1] = confidences
    return table.astype(np.float32)


def test_rows_of_nearly_equal_confidence_change_places() -> None:
    expected = rows(0.9, 0.800001, 0.8, 0.8, 0.7)
    actual = expected[:, [0, 3, 1, 2, 4]]
    for op in (DETECTION, DetectionOutput(3, 0.5, 0.5, 9, 9)):
        np.testing.assert_array_equal(in_order_of(op, actual, expected), expected)
    assert not np.array_equal(actual, expected)  # the argument stays as it was


def test_other_rows_stay() -> None:
    expected = rows(0.9, 0.8, 0.7)
    actual = expected[:, [1, 0, 2]]
    np.testing.assert_array_equal(in_order_of(DETECTION, actual, expected), actual)
    assert in_order_of(Relu(), actual, expected) is actual
    assert in_order_of(DETECTION, actual[:, :2], expected).shape == (1, 2, 6)


def test_results_as_a_caller_gets_them() -> None:
    """Without the leading axis that a device's result has."""
    expected = rows(0.9, 0.8, 0.8, 0.7)[0]
    np.testing.assert_array_equal(
        in_order_of(DETECTION, expected[[0, 2, 1, 3]], expected), expected
    )
