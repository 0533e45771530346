"""Segmentation: a class for each pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer, Share
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, Decoder, Reading, activated, decoder

#: Maps of more classes, or for larger inputs, are not made smooth before the best class is taken.
_SMOOTH = (64, 1 << 20)


@decoder("segmentation", "classes")
@dataclass(frozen=True, kw_only=True)
class ClassMap(Decoder):
    """The class with the best score in each pixel, or class numbers as they are ([H, W]).

    A map of one channel that is no integer is the probability of class 1, from the threshold on.
    """

    map: str = members.text()
    layout: str = members.choice(LAYOUTS)
    activation: str = members.choice(ACTIVATIONS)

    def decode(self, reading: Reading) -> Answer:
        planes = reading.planes(self.map, self.layout)
        if np.asarray(reading.outputs[self.map]).dtype.kind in "iu" and len(planes) == 1:
            numbers = planes[0].astype(np.int32)
        else:
            scores = activated(_smooth(planes, reading.place.size), self.activation, axis=0)
            scores = np.where(np.isnan(scores), -np.inf, scores)
            best = scores[0] >= reading.threshold if len(scores) == 1 else scores.argmax(axis=0)
            numbers = best.astype(np.int32)
        return mask_answer(numbers, reading.of_classes(len(planes)) if len(planes) > 1 else reading)


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
