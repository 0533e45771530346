"""RegionYolo and ReorgYolo, against loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, refuse


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def regions(x: np.ndarray, count: int, coords: int, classes: int, softmax: bool) -> np.ndarray:
    y = x.astype(np.float64).copy()
    each = coords + classes + 1
    for image, region in np.ndindex(len(x), count):
        part = y[image, region * each : (region + 1) * each]
        for plane in range(each):
            if plane < 2 or plane == coords or (plane > coords and not softmax):
                part[plane] = 1 / (1 + np.exp(-part[plane]))
        if softmax:
            e = np.exp(part[coords + 1 :])
            part[coords + 1 :] = e / e.sum(axis=0)
    return y.astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_regions(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    number = 0
    for coords, classes, size in ((4, 5, (4, 4)), (4, 1, (3, 2)), (4, 80, (1, 3)), (5, 2, (2, 2))):
        for softmax, images in ((True, 1), (False, 2), (False, 1), (True, 2)):
            number += 1
            x = normal(number, images, 3 * (coords + classes + 1), *size)
            y = regions(x, 3, coords, classes, softmax)
            attributes: dict[str, Any] = {"coords": coords, "classes": classes}
            attributes |= {"num": 3, "anchors": "1.5,2,3", "axis": 1, "end_axis": 3}
            if not softmax:
                attributes |= {"num": 9, "mask": "3,4,5", "do_softmax": 0}
            elif number % 4 == 0:
                attributes |= {"mask": "0,1", "do_softmax": 1}
            flat = y.reshape(images, -1) if number % 3 == 0 else y
            many.add("RegionYolo", [x], flat, attributes)
    many.check(backend, tmp_path)


def scrambled(x: np.ndarray, s: int) -> np.ndarray:
    images, channels, height, width = x.shape
    flat, y = x.reshape(-1), np.zeros_like(x)
    own = channels // (s * s)
    for b, c, i, j in np.ndindex(*x.shape):
        part, to = divmod(c, own)
        row, column = i * s + part // s, j * s + part % s
        y[b, c, i, j] = flat[((b * own + to) * height * s + row) * width * s + column]
    return y.reshape(images, channels * s * s, height // s, width // s)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reorg(backend: str, tmp_path: Path) -> None:
    many = Many()
    for number, (shape, stride) in enumerate(
        (((1, 9, 6, 6), 3), ((2, 8, 4, 6), 2), ((1, 64, 2, 2), 2), ((2, 3, 4, 5), 1),
         ((1, 12, 2, 4), 2), ((1, 4, 8, 2), 2), ((1, 9, 4, 4), 2), ((2, 7, 4, 4), 2))
    ):  # fmt: skip
        x = normal(number, *shape)
        many.add("ReorgYolo", [x], scrambled(x, stride), {"stride": stride})
    many.check(backend, tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    x = normal(0, 1, 21, 4, 4)
    good = {"coords": 4, "classes": 2, "num": 3}
    for attributes, match in (
        ({"num": 4}, "channels"),
        ({"do_softmax": 0}, "channels"),
        ({"coords": 1}, "coords"),
        ({"classes": "two"}, "classes"),
        ({"do_softmax": "maybe"}, "do_softmax"),
    ):
        refuse(tmp_path, "RegionYolo", [x], [x.shape], good | attributes, match)
    refuse(tmp_path, "RegionYolo", [x[0]], [x[0].shape], good, "wrong")
    for stride in (0, 3, 5):
        refuse(tmp_path, "ReorgYolo", [x], [x.shape], {"stride": stride}, "stride")
