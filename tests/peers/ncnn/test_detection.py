"""YoloDetectionOutput and Yolov3DetectionOutput against ncnn."""

from __future__ import annotations

import pytest
from tests.peers.ncnn.peer import check, image

ANCHORS = "-23304=12,10.0,14.0,23.0,27.0,37.0,58.0,81.0,82.0,135.0,169.0,344.0,319.0"
BOTH = f"0=4 1=3 {ANCHORS} -23305=6,3.0,4.0,5.0,0.0,1.0,2.0 -23306=2,32.0,16.0"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("thresholds", ["2=0.3", "2=0.6 3=0.2", "", "2=0.01 3=1.0"])
def test_two_maps(thresholds: str, seed: int, backend: str) -> None:
    maps = (image(27, 5, 6, seed=seed), image(27, 10, 12, seed=seed + 10))
    check(f"Yolov3DetectionOutput {BOTH} {thresholds}", *maps, backend=backend)


def test_the_mask_may_be_the_bits_of_floats(backend: str) -> None:
    bits = "-23305=3,1077936128,1082130432,1084227584"
    line = f"Yolov3DetectionOutput 0=4 1=3 2=0.4 {ANCHORS} {bits} -23306=1,33.6"
    check(line, image(27, 5, 6), backend=backend)


@pytest.mark.parametrize("thresholds", ["2=0.2", "2=0.3 3=0.2", "", "2=0.05 3=1.0"])
def test_yolo_v2(thresholds: str, backend: str) -> None:
    anchors = "-23304=4,1.08,1.19,3.42,4.41"
    x = image(2 * 8, 5, 6, seed=3)
    check(f"YoloDetectionOutput 0=3 1=2 {anchors} {thresholds}", x, backend=backend)
    maps = (image(12, 3, 4, seed=1), image(12, 6, 8, seed=2))
    check(f"YoloDetectionOutput 0=1 1=2 {anchors} {thresholds}", *maps, backend=backend)


def test_many_classes(backend: str) -> None:
    """As in ncnn's own tests: 80 classes, most boxes without a chance."""
    maps = [
        (image(255, 13 * n, 13 * n, seed=n, scale=4.8) - 6.75).astype("float32") for n in (1, 2)
    ]
    anchors = "-23304=12,10.0,14.0,23.0,27.0,37.0,58.0,81.0,82.0,135.0,169.0,344.0,319.0"
    line = f"0=80 1=3 2=0.3 3=0.45 {anchors} -23305=6,3.0,4.0,5.0,1.0,2.0,3.0 -23306=2,32.0,16.0"
    check(f"Yolov3DetectionOutput {line}", *maps, backend=backend)
