"""Yolov3DetectionOutput against ncnn."""

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
