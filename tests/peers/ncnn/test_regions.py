"""ROIPooling, ROIAlign and PSROIPooling against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image

CASES = [
    "0=28 1=28 2=0.5 3=0 4=0 5=0",
    "0=14 1=14 2=0.25 3=1 4=1 5=1",
    "0=7 1=7 2=0.125 3=2 4=0 5=1",
    "0=7 1=5 2=0.0625 3=3 4=1 5=0",
    "0=3 1=3 2=0.03125 3=4 4=0 5=0",
    "0=3 1=2 3=0 4=1 5=1",
    "0=4 1=3 3=0 4=0 5=1",
    "0=2 1=1 3=0 4=1 5=0",
    "0=2 1=2 3=-1 4=0 5=0",
]


def region(height: int, width: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    x1, y1 = random.uniform(0.001, 0.6, 2) * (width - 2, height - 2)
    x2 = random.uniform(x1 + 1.001, width - 1.001)
    y2 = random.uniform(y1 + 1.001, height - 1.001)
    return np.array([x1, y1, x2, y2], np.float32)


@pytest.mark.parametrize("parameters", CASES)
@pytest.mark.parametrize("channels", [1, 4, 7])
def test_align(parameters: str, channels: int, backend: str) -> None:
    x = image(channels, 17, 14)
    check(f"ROIAlign {parameters}", x, region(17, 14, channels), backend=backend)


#: A region of one pixel has quarters for bins, not thirds: ncnn's code for some processors differs
#: in the last bit of a third, which decides where a bin begins that begins at a whole place.
@pytest.mark.parametrize("parameters", ["0=5 1=4 2=0.5", "0=4 1=4 2=0.25", "0=27 1=17", "0=1 1=1"])
@pytest.mark.parametrize("channels", [1, 6, 16])
def test_maximum(parameters: str, channels: int, backend: str) -> None:
    x = image(channels, 16, 19)
    check(f"ROIPooling {parameters}", x, region(16, 19, channels), backend=backend)
    outside = np.array([-9.0, 3.0, 60.0, 80.0], np.float32)
    check(f"ROIPooling {parameters}", x - 5, outside, backend=backend)


@pytest.mark.parametrize("bins", [1, 2, 3, 4, 5, 7, 8, 14, 28, 56])
def test_bins_that_end_on_whole_places(bins: int, backend: str) -> None:
    x = image(2, 29, 29)
    for end in (bins % 28, 27):
        roi = np.array([0, 0, end, end], np.float32)
        check(f"ROIPooling 0={bins} 1={bins}", x, roi, backend=backend)
        if bins < 5:
            parts = image(2 * bins**2, 29, 29)
            check(f"PSROIPooling 0={bins} 1={bins} 2=1.0 3=2", parts, roi, backend=backend)


@pytest.mark.parametrize("parameters", ["0=2 1=3 2=0.5", "0=3 1=2 2=0.0625", "0=1 1=6 2=1.0"])
@pytest.mark.parametrize("outputs", [1, 5])
def test_position_sensitive(parameters: str, outputs: int, backend: str) -> None:
    x = image(6 * outputs, 12, 9)
    check(f"PSROIPooling {parameters} 3={outputs}", x, region(24, 18, outputs), backend=backend)
    outside = np.array([-9.5, 2.5, 60.5, 8.0], np.float32)
    check(f"PSROIPooling {parameters} 3={outputs}", x, outside, backend=backend)


@pytest.mark.parametrize("layer", ["ROIAlign 0=3 1=2", "ROIPooling 0=2 1=2"])
def test_only_the_first_of_several_regions(layer: str, backend: str) -> None:
    rois = np.stack([region(9, 8, seed) for seed in range(3)])
    check(layer, image(3, 9, 8), rois.reshape(3, 1, 4), backend=backend)
    check(layer, image(3, 9, 8), rois, backend=backend)
