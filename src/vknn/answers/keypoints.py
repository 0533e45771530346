"""Keypoints: peaks of heat maps, and coordinates that a network gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers.answer import Answer, Found, Point
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, Decoder, Reading, activated, decoder
from vknn.answers.fields import Fields
from vknn.answers.rows import UNITS, in_pixels

Pairs = tuple[tuple[int, int], ...]


def read_skeleton(fields: Fields) -> Pairs:
    """Pairs of keypoints that a line joins."""
    pairs: list[tuple[int, int]] = []
    for pair in fields.items("skeleton", []):
        inner = Fields({"skeleton": pair}, fields.where, fields.file)
        first, second = inner.items("skeleton", count=2)
        ends = Fields({"first": first, "second": second}, fields._place("skeleton"), fields.file)
        pairs.append((ends.whole("first", most=4096), ends.whole("second", most=4096)))
    return tuple(pairs)


@decoder("keypoints", "heatmaps")
@dataclass(frozen=True)
class Heatmaps(Decoder):
    """The peak of each heat map is a keypoint of the one person that is looked for.

    Maps ``first`` to ``first + count`` of the output are taken (all, where count is None).
    ``offsets``: an output with the rows' offsets, then the columns', in pixels of the input, as
    PoseNet has it; the peak of a map is then at the corner of a cell, else in the middle of one,
    moved by a quarter of a cell towards the larger neighbour.
    """

    heatmaps: str
    first: int
    count: int | None
    layout: str
    offsets: str | None
    activation: str
    names: tuple[str, ...]
    skeleton: Pairs

    @classmethod
    def read(cls, fields: Fields) -> Heatmaps:
        return cls(
            fields.text("heatmaps"),
            fields.whole("first", 0),
            fields.whole("count", None, least=1),
            fields.choice("layout", LAYOUTS, "chw"),
            fields.text("offsets", None),
            fields.choice("activation", ACTIVATIONS[:2], "none"),
            fields.texts("names", ()),
            read_skeleton(fields),
        )

    def decode(self, reading: Reading) -> Answer:
        planes = reading.planes(self.heatmaps, self.layout)
        maps = planes[self.first :][: self.count or len(planes)]
        if not len(maps) or len(maps) < (self.count or 1):
            raise reading.misfit(self.heatmaps, f"maps {self.first} to {self.count}")
        maps = activated(maps, self.activation)
        places, scores = peaks(maps)
        height, width = maps.shape[1:]
        if self.offsets is None:
            stride = np.array(reading.place.size) / (width, height)
            spots = (places + 0.5 + _quarters(maps, places)) * stride
        else:
            moves = reading.planes(self.offsets, self.layout)
            if moves.shape != (2 * len(planes), height, width):
                raise reading.misfit(self.offsets, f"offsets of {len(planes)} maps")
            cells = np.maximum(1, np.array([width, height]) - 1)
            stride = np.round((np.array(reading.place.size) - 1) / cells)
            rows = np.arange(len(maps)) + self.first
            x, y = places.T
            step = np.stack([moves[rows + len(planes), y, x], moves[rows, y, x]], axis=1)
            spots = places * stride + step
        return keypoints_of(spots, scores, reading, self.names, self.skeleton)


def peaks(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of the largest element of each map [k, h, w], [k, 2], and its value [k]."""
    flat = np.where(np.isnan(maps), -np.inf, maps).reshape(len(maps), -1)
    best = flat.argmax(axis=1)
    places = np.stack([best % maps.shape[2], best // maps.shape[2]], axis=1)
    return places, flat[np.arange(len(maps)), best]


def _quarters(maps: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A quarter of a cell towards the larger neighbour along x and y, [k, 2]; 0 at the edges."""
    made = np.zeros(places.shape)
    height, width = maps.shape[1:]
    for index, (x, y) in enumerate(places.tolist()):
        plane = maps[index]
        if 0 < x < width - 1:
            made[index, 0] = np.sign(plane[y, x + 1] - plane[y, x - 1]) / 4
        if 0 < y < height - 1:
            made[index, 1] = np.sign(plane[y + 1, x] - plane[y - 1, x]) / 4
    return np.nan_to_num(made)


@decoder("keypoints", "points")
@dataclass(frozen=True)
class Points(Decoder):
    """Coordinates that the network gives: x, y (and more) of ``count`` points, one by one.

    ``score``: an output that says how sure it is that there is something at all.
    """

    points: str
    count: int
    units: str
    score: str | None
    activation: str
    names: tuple[str, ...]
    skeleton: Pairs

    @classmethod
    def read(cls, fields: Fields) -> Points:
        return cls(
            fields.text("points"),
            fields.whole("count", least=1),
            fields.choice("units", UNITS, "fraction"),
            fields.text("score", None),
            fields.choice("activation", ACTIVATIONS[:2], "none"),
            fields.texts("names", ()),
            read_skeleton(fields),
        )

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
        scores = np.full(self.count, sure)
        spots = in_pixels(pairs, self.units, reading.place)
        return keypoints_of(spots, scores, reading, self.names, self.skeleton)


def keypoints_of(
    spots: np.ndarray, scores: np.ndarray, reading: Reading, names: tuple[str, ...], skeleton: Pairs
) -> Answer:
    """The answer for points [k, 2] of the input: one thing, unless no point is sure enough.

    Points below the threshold stay in the answer, with their scores, so that numbers keep their
    meaning; pictures are drawn without them.
    """
    places = reading.place.to_picture(spots)
    points = tuple(
        Point(float(x), float(y), float(s), names[i] if i < len(names) else None)
        for i, ((x, y), s) in enumerate(zip(places, scores, strict=True))
        if np.isfinite((x, y, s)).all()
    )
    sure = [p.score for p in points if p.score is not None and p.score >= reading.threshold]
    if len(points) < len(spots):
        skeleton = ()  # the numbers in it are not those of the points that are left
    picture = reading.place.picture
    if not sure:
        return Answer("keypoints", picture, threshold=reading.threshold)
    thing = Found(None, reading.labels.of(0), float(np.mean(sure)), None, points)
    return Answer("keypoints", picture, (thing,), skeleton=skeleton, threshold=reading.threshold)
