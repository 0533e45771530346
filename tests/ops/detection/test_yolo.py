"""YoloDetection on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.detection.yolo import YoloDetection

RNG = np.random.default_rng(19)


def detector(classes: int, boxes: int, maps: int, **changes: float | bool) -> YoloDetection:
    anchors = maps * boxes
    settings = {"confidence_threshold": 0.3, "nms_threshold": 0.4, **changes}
    return YoloDetection(
        classes,
        boxes,
        biases=tuple(float(b) for b in RNG.uniform(10, 200, 2 * anchors)),
        mask=tuple(int(i) for i in RNG.permutation(anchors)),
        anchors_scale=tuple(32.0 / 2**i for i in range(maps)),
        **settings,  # type: ignore[arg-type]
    )


def maps(classes: int, boxes: int, *sizes: tuple[int, int]) -> list[np.ndarray]:
    channels = boxes * (5 + classes)
    return [RNG.standard_normal((1, channels, *s)).astype(np.float32) for s in sizes]


@pytest.mark.parametrize(
    "classes, boxes, sizes",
    [
        (1, 1, [(1, 1)]),
        (3, 3, [(5, 7)]),
        (80, 3, [(3, 5), (6, 10)]),
        (2, 2, [(2, 3), (4, 6), (8, 12)]),
    ],
)
def test_sizes(classes: int, boxes: int, sizes: list[tuple[int, int]]) -> None:
    op = detector(classes, boxes, len(sizes))
    inputs = maps(classes, boxes, *sizes)
    check_op(op, *inputs)
    check_op(op, *inputs, access=("storage",), kind="discrete")


@pytest.mark.parametrize("classes", [1, 4, 5])
def test_softmax(classes: int) -> None:
    op = detector(classes, 2, 2, confidence_threshold=0.1, softmax=True)
    check_op(op, *maps(classes, 2, (3, 5), (6, 7)), access=("texel",))


def test_nothing_found() -> None:
    check_op(detector(3, 2, 1, confidence_threshold=2.0), *maps(3, 2, (4, 5)))


def test_everything_kept_in_order() -> None:
    op = detector(3, 2, 1, confidence_threshold=0.0, nms_threshold=2.0)
    check_op(op, *maps(3, 2, (7, 5)))


def test_equal_scores_keep_their_order() -> None:
    x = maps(2, 1, (4, 5))[0]
    x[:, 4:] = x[:, 4:, :1, :1]
    check_op(detector(2, 1, 1, nms_threshold=0.9), x)


def test_more_boxes_than_one_dispatch_may_compare() -> None:
    op = detector(1, 3, 1, confidence_threshold=0.0, nms_threshold=0.99)
    x = maps(1, 3, (37, 41))[0]
    # Scores far enough apart that the last bit of an exp does not decide their order.
    spread = np.linspace(-3, 3, 3 * 37 * 41, dtype=np.float32)
    x[:, 4::6] = RNG.permutation(spread).reshape(1, 3, 37, 41)
    x[:, 5::6] = 1.0
    check_op(op, x, access=("storage",))


def test_more_boxes_than_the_loops_of_a_lane_take() -> None:
    op = detector(1, 3, 1)
    check_op(op, *maps(1, 3, (5, 7)), access=("storage",), max_loop_rounds=40)
    check_op(op, *maps(1, 3, (5, 11)), host=True, max_loop_rounds=40)
