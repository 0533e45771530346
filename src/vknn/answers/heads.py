"""Detections of networks that end before their boxes are decoded: priors and distances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer
from vknn.answers.decoder import ACTIVATIONS, Decoder, Reading, activated, decoder
from vknn.answers.detections import Boxes, ScoredBoxes, answer_of, best_classes
from vknn.answers.fields import Fields
from vknn.answers.members import Members
from vknn.answers.rows import corners_of

MOST_STRIDE = 1 << 12


def _sizes(fields: Fields, key: str) -> tuple[tuple[float, float], ...]:
    """Sides of priors; where there is only their number, of some size."""
    if fields.has("count"):
        return ((1.0, 1.0),) * fields.whole("count", least=1, most=1024)
    return fields.sides(key)


@dataclass(frozen=True, kw_only=True)
class Level(Members):
    """A feature map: pixels of the input to a cell, and the sides of its priors, [w, h] each."""

    stride: int = members.whole(least=1, most=MOST_STRIDE)
    sizes: tuple[tuple[float, float], ...] = members.member(_sizes)

    def priors(self, size: tuple[int, int]) -> np.ndarray:
        """Centre x, y, width and height in pixels, [n, 4], for an input of (width, height)."""
        grid = cells(size, self.stride)
        centres = np.repeat((grid + 0.5) * self.stride, len(self.sizes), axis=0)
        return np.concatenate([centres, np.tile(np.array(self.sizes), (len(grid), 1))], axis=1)


def cells(size: tuple[int, int], stride: int) -> np.ndarray:
    """Column and row of each cell of a feature map, row by row, [n, 2]."""
    columns, rows = (math.ceil(side / stride) for side in size)
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


@decoder("detection", "priors")
@dataclass(frozen=True, kw_only=True)
class Priors(ScoredBoxes):
    """SSD's heads: how each prior is to be moved, [n, 4 and more], and scores [n, classes].

    ``coder`` "ssd": centre + variance * offset * side, side * e^(variance * offset); "pixels":
    centre + offset, and sizes as they are, in pixels (BlazeFace). ``clip``: priors are cut to the
    input, in the sense of the SSD code (centres and sides to at most the input's).
    """

    boxes: str = members.text()
    scores: str = members.text()
    levels: tuple[Level, ...] = members.each(Level)
    coder: str = members.choice(("ssd", "pixels"))
    variances: tuple[float, ...] = members.numbers((0.1, 0.2), count=2)
    clip: bool = members.flag()

    def decode(self, reading: Reading) -> Answer:
        moves, scores = reading.rows(self.boxes), reading.rows(self.scores)
        size = reading.place.size
        priors = np.concatenate([level.priors(size) for level in self.levels])
        if len(moves) != len(priors) or moves.shape[1] < 4 + 2 * self.points:
            raise reading.misfit(self.boxes, f"{len(priors)} priors of a {size[0]}x{size[1]} input")
        if len(scores) != len(priors):
            raise reading.misfit(self.scores, f"{len(priors)} priors")
        if self.clip:
            priors = priors.clip(0, np.tile(np.array(size, float), 2))
        corners = corners_of(self._moved(priors, moves), "cxcywh")
        points = None
        if self.points:
            pairs = moves[:, 4 : 4 + 2 * self.points].reshape(len(moves), self.points, 2)
            if self.coder == "ssd":
                pairs = pairs * self.variances[0] * priors[:, None, 2:]
            points = pairs + priors[:, None, :2]
        return self.answer(corners, scores, points, reading)

    def _moved(self, priors: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Boxes as centre and size."""
        if self.coder == "pixels":
            return np.concatenate([priors[:, :2] + moves[:, :2], moves[:, 2:4]], axis=1)
        centres = priors[:, :2] + self.variances[0] * moves[:, :2] * priors[:, 2:]
        with np.errstate(all="ignore"):  # what is not finite is left out
            sizes = priors[:, 2:] * np.exp(self.variances[1] * moves[:, 2:4])
        return np.concatenate([centres, sizes], axis=1)


@dataclass(frozen=True, kw_only=True)
class DistanceLevel(Members):
    """A level's stride, and its outputs: scores [cells, classes], distances [cells, 4 * bins]."""

    stride: int = members.whole(least=1, most=MOST_STRIDE)
    scores: str = members.text()
    distances: str = members.text()


@decoder("detection", "distances")
@dataclass(frozen=True, kw_only=True)
class Distances(Decoder):
    """Scores of each cell, and how far the box's sides are from its centre (GFL, NanoDet).

    A distance is a distribution over whole numbers of strides: its mean after a softmax.
    """

    levels: tuple[DistanceLevel, ...] = members.each(DistanceLevel)
    activation: str = members.choice(ACTIVATIONS)

    def decode(self, reading: Reading) -> Answer:
        parts = [_level(reading, level) for level in self.levels]
        corners, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        numbers, best = best_classes(activated(scores, self.activation))
        return answer_of(Boxes(corners, best, numbers), reading.of_classes(scores.shape[1]))


def _level(reading: Reading, level: DistanceLevel) -> tuple[np.ndarray, np.ndarray]:
    """Corners [cells, 4] and scores [cells, classes] of a level."""
    stride, scores, distances = level.stride, level.scores, level.distances
    grid = cells(reading.place.size, stride)
    bins, found = reading.rows(distances), reading.rows(scores)
    if len(bins) != len(grid) or bins.shape[1] % 4:
        raise reading.misfit(distances, f"{len(grid)} cells of stride {stride}")
    if len(found) != len(grid):
        raise reading.misfit(scores, f"{len(grid)} cells of stride {stride}")
    shares = activated(bins.reshape(len(grid), 4, -1), "softmax")
    reach = shares @ np.arange(shares.shape[2]) * stride
    centres = (grid + 0.5) * stride
    return np.concatenate([centres - reach[:, :2], centres + reach[:, 2:]], axis=1), found
