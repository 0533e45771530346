"""Suppression of boxes one after another, and models that are held against it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.coreml_writer import session
from tests.formats.coreml.test_non_max_suppression import overlap
from tests.helpers import shared_device
from tests.needs import device_is_there

OUTPUTS = ("confidence", "coordinates")
Arrays = dict[str, np.ndarray]


def expected(
    boxes: np.ndarray, scores: np.ndarray, iou: float, least: float, by_class: bool
) -> Arrays:
    """The rows that stay, by one box after the other."""
    iou, least = float(np.float32(iou)), float(np.float32(least))
    known = np.where(np.isnan(scores), -np.inf, scores)
    left = [i for i in range(len(boxes)) if known[i].max() >= least]
    kept: list[int] = []
    while left:
        first = max(left, key=lambda i: (known[i].max(), -i))
        kept.append(first)
        left = [
            i
            for i in left
            if i != first
            and (
                (by_class and known[i].argmax() != known[first].argmax())
                or not np.isfinite(boxes[[i, first]]).all()
                or overlap(boxes[i], boxes[first]) <= iou
            )
        ]
    return {"confidence": scores[kept], "coordinates": boxes[kept]}


def found(message: Any, feeds: dict[str, Any], **options: Any) -> Arrays:
    """The outputs with NumPy, which are those of the device where there is one."""
    with session(message, **options) as host:
        wanted = host.run(feeds)
    if device_is_there():
        with session(message, shared_device(), **options) as device:
            made = device.run(feeds)
        assert list(made) == list(wanted)
        for name in OUTPUTS:
            np.testing.assert_array_equal(made[name], wanted[name], err_msg=name)
    return wanted


def check(message: Any, boxes: np.ndarray, scores: np.ndarray, *how: Any) -> Arrays:
    wanted = expected(boxes, scores, *how)
    made = found(message, {"scores": scores, "boxes": boxes})
    for name in OUTPUTS:
        assert made[name].dtype == np.float32
        np.testing.assert_array_equal(made[name], wanted[name], err_msg=name)
    return wanted
