"""Regions of a map of probabilities that hang together, as boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer
from vknn.answers.decoder import LAYOUTS, Decoder, Reading, decoder
from vknn.answers.detections import Boxes, answer_of


@decoder("detection", "regions")
@dataclass(frozen=True, kw_only=True)
class Regions(Decoder):
    """Regions of a map of probabilities that hang together, as boxes, such as lines of text.

    A region is of pixels above ``level``; its score is their mean. Boxes grow on all sides by
    ``grow`` times area / circumference, as text detectors that learn shrunk regions need it (DB).
    """

    map: str = members.text()
    layout: str = members.choice(LAYOUTS)
    level: float = members.number(0.3)
    grow: float = members.number(0.0, least=0, most=100)
    smallest: int = members.whole(3, least=1)

    def decode(self, reading: Reading) -> Answer:
        plane = reading.planes(self.map, self.layout)[0]
        with np.errstate(all="ignore"):
            numbers, count = connected(plane > self.level)
        boxes, scores = [], []
        for left, top, right, bottom, mean in region_boxes(numbers, count, plane):
            if min(right - left, bottom - top) < self.smallest:
                continue
            area = (right - left) * (bottom - top)
            step = self.grow * area / (2 * (right - left + bottom - top))
            boxes.append((left - step, top - step, right + step, bottom + step))
            scores.append(mean)
        factor = np.array(reading.place.size) / (plane.shape[1], plane.shape[0])
        corners = np.array(boxes, float).reshape(-1, 4) * np.tile(factor, 2)
        return answer_of(Boxes(corners, np.array(scores, float), None), reading)


def connected(there: np.ndarray) -> tuple[np.ndarray, int]:
    """Number of the region of each pixel [h, w], from 1, 0 outside; and how many there are.

    Pixels that touch at a side or a corner are of one region. Runs of a row are joined with those
    that they touch in the row above.
    """
    height, width = there.shape
    edges = np.diff(np.pad(there, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, begins = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    parent = list(range(len(rows)))
    first = np.searchsorted(rows, np.arange(height + 1)).tolist()
    for row in range(1, height):
        above, below = first[row - 1], first[row]
        while above < first[row] and below < first[row + 1]:
            if begins[above] <= ends[below] and begins[below] <= ends[above]:
                parent[_root(parent, above)] = _root(parent, below)
            if ends[above] < ends[below]:
                above += 1
            else:
                below += 1
    roots = np.array([_root(parent, i) for i in range(len(parent))], int)
    names, which = np.unique(roots, return_inverse=True)
    numbers = np.zeros((height, width), np.int32)
    runs = zip(rows.tolist(), begins.tolist(), ends.tolist(), which.tolist(), strict=True)
    for row, begin, end, number in runs:
        numbers[row, begin:end] = number + 1
    return numbers, len(names)


def _root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        parent[index] = index = parent[parent[index]]
    return index


def region_boxes(
    numbers: np.ndarray, count: int, values: np.ndarray
) -> list[tuple[int, int, int, int, float]]:
    """Left, top, right, bottom (behind the last pixel) and mean of the values of each region."""
    y, x = np.nonzero(numbers)
    which = numbers[y, x] - 1
    low = np.full((2, count), np.iinfo(np.int64).max)
    high = np.zeros((2, count), np.int64)
    for axis, places in enumerate((x, y)):
        np.minimum.at(low[axis], which, places)
        np.maximum.at(high[axis], which, places + 1)
    sums = np.bincount(which, values[y, x], minlength=count)
    means = sums / np.maximum(1, np.bincount(which, minlength=count))
    return list(zip(*low.tolist(), *high.tolist(), means.tolist(), strict=True))
