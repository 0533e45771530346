"""Keypoints: peaks of heat maps, and coordinates that a network gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer, Found
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, UNITS, Decoder, Reading, activated, decoder
from vknn.answers.detections import points_of
from vknn.answers.rows import in_pixels

#: Pixels that a point is from its cell at most.
_FARTHEST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Keypoints(Decoder):
    """Base of the decoders of keypoints. ``skeleton``: pairs of them that a line joins."""

    activation: str = members.choice(ACTIVATIONS[:2])
    names: tuple[str, ...] = members.texts(())
    skeleton: tuple[tuple[int, int], ...] = members.rows(())

    def answer(
        self,
        people: Sequence[tuple[np.ndarray, np.ndarray]],
        reading: Reading,
        least: int = 1,
        sure: float = 0.0,
    ) -> Answer:
        """The answer for points [k, 2] of the input and scores [k] of each person.

        People of whom fewer than ``least`` points reach the threshold, or whose mean score is below
        ``sure``, are left out. Of the others points below the threshold stay, with their scores, so
        that numbers keep their meaning; pictures are drawn without them.
        """
        found = []
        for spots, scores in people:
            points = points_of(spots, scores, reading.place, self.names)
            good = [p.score for p in points if p.score is not None and p.is_found]
            good = [score for score in good if score >= reading.threshold]
            if len(good) >= least and (score := float(np.mean(good))) >= sure:
                found.append(Found(None, reading.labels.of(0), score, None, points))
        found.sort(key=lambda person: -person.score)
        return Answer(
            "keypoints",
            reading.place.picture,
            tuple(found[: reading.most]),
            skeleton=self.skeleton,
            threshold=reading.threshold,
        )


@dataclass(frozen=True, kw_only=True)
class Maps(Keypoints):
    """Base of the decoders of heat maps, one for each keypoint.

    Maps ``first`` to ``first + count`` of the output are taken (all, where count is None).
    """

    heatmaps: str = members.text()
    first: int = members.whole(0)
    count: int | None = members.whole(None, least=1)
    layout: str = members.choice(LAYOUTS)

    def maps(self, reading: Reading) -> np.ndarray:
        """The heat maps [k, h, w]; NaN is below all."""
        planes = reading.planes(self.heatmaps, self.layout)
        maps = planes[self.first :][: self.count or len(planes)]
        if not len(maps) or len(maps) < (self.count or 1):
            raise reading.misfit(self.heatmaps, f"maps {self.first} to {self.count}")
        maps = activated(maps, self.activation)
        return np.where(np.isnan(maps), -np.inf, maps)

    def moves(self, name: str, maps: np.ndarray, count: int, reading: Reading) -> np.ndarray:
        """An output with the rows' and then the columns' moves, [2, count, h, w], in pixels.

        What is no move (not finite, or out of all pictures) is NaN: it leads to no place.
        """
        planes = reading.planes(name, self.layout)
        if planes.shape != (2 * count, *maps.shape[1:]):
            raise reading.misfit(name, f"2 x {count} maps of {maps.shape[2]}x{maps.shape[1]}")
        moves = planes.reshape(2, count, *maps.shape[1:])
        with np.errstate(all="ignore"):
            return np.where(np.abs(moves) < _FARTHEST, moves, np.nan)


def peaks(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of the largest element of each map [k, h, w], [k, 2], and its value [k]."""
    flat = maps.reshape(len(maps), -1)
    best = flat.argmax(axis=1)
    places = np.stack([best % maps.shape[2], best // maps.shape[2]], axis=1)
    return places, flat[np.arange(len(maps)), best]


def between_cells(maps: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Peaks [k, 2] of maps [k, h, w] in cells, from the corner of the first.

    They are in the middle of a cell, and along x and y a quarter of one nearer to the larger
    neighbour; not at the edges.
    """
    made = places + 0.5
    height, width = maps.shape[1:]
    with np.errstate(all="ignore"):
        for index, (x, y) in enumerate(places.tolist()):
            plane = maps[index]
            if 0 < x < width - 1:
                made[index, 0] += np.nan_to_num(np.sign(plane[y, x + 1] - plane[y, x - 1]) / 4)
            if 0 < y < height - 1:
                made[index, 1] += np.nan_to_num(np.sign(plane[y + 1, x] - plane[y - 1, x]) / 4)
    return made


def corner_stride(maps: np.ndarray, reading: Reading) -> np.ndarray:
    """Pixels from cell to cell along x and y, where the first and last are at the corners."""
    cells = np.maximum(1, np.array([maps.shape[2], maps.shape[1]]) - 1)
    return np.maximum(1, np.round((np.array(reading.place.size) - 1) / cells))


@decoder("keypoints", "heatmaps")
@dataclass(frozen=True, kw_only=True)
class Heatmaps(Maps):
    """The peak of each heat map is a keypoint of the one person that is looked for.

    ``offsets``: an output with the rows' offsets, then the columns', in pixels of the input, as
    PoseNet has it; the peak of a map is then at the corner of a cell.
    """

    offsets: str | None = members.text(None)

    def decode(self, reading: Reading) -> Answer:
        maps = self.maps(reading)
        places, scores = peaks(maps)
        if self.offsets is None:
            stride = np.array(reading.place.size) / (maps.shape[2], maps.shape[1])
            spots = between_cells(maps, places) * stride
        else:
            count = len(reading.planes(self.heatmaps, self.layout))
            moves = self.moves(self.offsets, maps, count, reading)
            x, y = places.T
            step = moves[:, np.arange(len(maps)) + self.first, y, x].T[:, ::-1]
            spots = places * corner_stride(maps, reading) + step
        return self.answer([(spots, scores)], reading)


@decoder("keypoints", "points")
@dataclass(frozen=True, kw_only=True)
class Points(Keypoints):
    """Coordinates that the network gives: x, y (and more) of ``count`` points, one by one.

    ``score``: an output that says how sure it is that there is something at all.
    """

    points: str = members.text()
    count: int = members.whole(least=1)
    units: str = members.choice(UNITS)
    score: str | None = members.text(None)

    def decode(self, reading: Reading) -> Answer:
        flat = reading.array(self.points).reshape(-1)
        if flat.size % self.count or flat.size < 2 * self.count:
            raise reading.misfit(self.points, f"{self.count} points")
        pairs = flat.reshape(self.count, -1)[:, :2]
        sure = 1.0
        if self.score is not None:
            values = reading.array(self.score).reshape(-1)
            if values.size != 1:
                raise reading.misfit(self.score, "score")
            sure = float(activated(values, self.activation)[0])
        spots = in_pixels(pairs, self.units, reading.place)
        return self.answer([(spots, np.full(self.count, sure))], reading)


@decoder("keypoints", "logits")
@dataclass(frozen=True, kw_only=True)
class LogitOffsets(Maps):
    """Peaks of heat maps, and offsets from them in further maps of the same output.

    Behind the ``count`` heat maps there are as many of the rows' offsets and of the columns'. Each
    is a probability p, which stands for (side - 1) * ln(p / (1 - p)) / ``factor`` pixels of the
    input, from a peak whose first and last cells are at the corners (OpenSeeFace, tracker.py).
    """

    count: int = members.whole(least=1)
    factor: float = members.number(16.0, least=1e-3)

    def decode(self, reading: Reading) -> Answer:
        planes = reading.planes(self.heatmaps, self.layout)[self.first :]
        if len(planes) != 3 * self.count:
            raise reading.misfit(self.heatmaps, f"3 x {self.count} maps")
        maps = self.maps(reading)
        places, scores = peaks(maps)
        x, y = places.T
        moves = planes[self.count :].reshape(2, self.count, *maps.shape[1:])
        sure = (
            moves[:, np.arange(self.count), y, x].T[:, ::-1].astype(np.float64).clip(1e-7, 1 - 1e-7)
        )
        cells = np.maximum(1, np.array([maps.shape[2], maps.shape[1]]) - 1)
        sides = np.array(reading.place.size) - 1
        spots = sides * (places / cells + np.log(sure / (1 - sure)) / self.factor)
        return self.answer([(spots, scores)], reading)
