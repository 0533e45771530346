"""Segmentation: a class for each pixel; and regions of a map of probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers.answer import Answer, Share
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, Decoder, Reading, activated, decoder
from vknn.answers.detections import Boxes, answer_of
from vknn.answers.fields import Fields

#: Maps of more classes, or for larger inputs, are not made smooth before the best class is taken.
_SMOOTH = (64, 1 << 20)


@decoder("segmentation", "classes")
@dataclass(frozen=True)
class ClassMap(Decoder):
    """The class with the best score in each pixel, or class numbers as they are ([H, W]).

    A map of one channel that is no integer is the probability of class 1, from the threshold on.
    """

    map: str
    layout: str
    activation: str

    @classmethod
    def read(cls, fields: Fields) -> ClassMap:
        return cls(
            fields.text("map"),
            fields.choice("layout", LAYOUTS, "chw"),
            fields.choice("activation", ACTIVATIONS, "none"),
        )

    def decode(self, reading: Reading) -> Answer:
        planes = reading.planes(self.map, self.layout)
        if np.asarray(reading.outputs[self.map]).dtype.kind in "iu" and len(planes) == 1:
            numbers = planes[0].astype(np.int32)
        else:
            scores = activated(_smooth(planes, reading.place.size), self.activation, axis=0)
            scores = np.where(np.isnan(scores), -np.inf, scores)
            best = scores[0] >= reading.threshold if len(scores) == 1 else scores.argmax(axis=0)
            numbers = best.astype(np.int32)
        return mask_answer(numbers, reading)


def mask_answer(numbers: np.ndarray, reading: Reading) -> Answer:
    """The answer for classes [h, w] of the input: of each pixel of the picture the nearest one."""
    width, height = reading.place.picture
    columns = _nearest(width, numbers.shape[1], reading, 0)
    rows = _nearest(height, numbers.shape[0], reading, 1)
    mask = numbers[rows[:, None], columns[None, :]]
    values, counts = np.unique(mask, return_counts=True)
    order = np.argsort(-counts, kind="stable")[: reading.most]
    shares = tuple(
        Share(int(values[i]), reading.labels.of(int(values[i])), int(counts[i]),
              float(counts[i] / mask.size))
        for i in order
    )  # fmt: skip
    return Answer("segmentation", (width, height), shares=shares, mask=mask)


def _nearest(count: int, cells: int, reading: Reading, axis: int) -> np.ndarray:
    """Index of the map's cell for each pixel of the picture along an axis."""
    place = reading.place
    spots = (np.arange(count) + 0.5) * place.scale[axis] + place.offset[axis]
    return np.floor(spots * cells / place.size[axis]).astype(int).clip(0, cells - 1)


def _smooth(planes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scores [C, h, w] in the size of the input, by linear interpolation, where it is larger."""
    from PIL import Image

    small = planes.shape[1] < size[1] or planes.shape[2] < size[0]
    if not small or len(planes) > _SMOOTH[0] or size[0] * size[1] > _SMOOTH[1]:
        return planes
    pictures = (Image.fromarray(plane.astype(np.float32)) for plane in planes)
    return np.stack([np.asarray(p.resize(size, Image.Resampling.BILINEAR)) for p in pictures])


@decoder("detection", "regions")
@dataclass(frozen=True)
class Regions(Decoder):
    """Regions of a map of probabilities that hang together, as boxes, such as lines of text.

    A region is of pixels above ``level``; its score is their mean. Boxes grow on all sides by
    ``grow`` times area / circumference, as text detectors that learn shrunk regions need it (DB).
    """

    map: str
    layout: str
    level: float
    grow: float
    smallest: int

    @classmethod
    def read(cls, fields: Fields) -> Regions:
        return cls(
            fields.text("map"),
            fields.choice("layout", LAYOUTS, "chw"),
            fields.number("level", 0.3),
            fields.number("grow", 0.0, least=0, most=100),
            fields.whole("smallest", 3, least=1),
        )

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
