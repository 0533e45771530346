"""Detections of the formats' own last layers, and boxes that are decoded already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer
from vknn.answers.decoder import UNITS, Decoder, Reading, decoder
from vknn.answers.detections import Boxes, ScoredBoxes, answer_of
from vknn.answers.fields import Fields
from vknn.pictures import Placement

#: How four numbers are a box: corners, corners with y first, a corner or the centre with the size.
FORMATS = ("xyxy", "yxyx", "xywh", "cxcywh")


def corners_of(boxes: np.ndarray, how: str) -> np.ndarray:
    """Boxes [n, 4] of one of ``FORMATS`` as left, top, right, bottom."""
    if how == "yxyx":
        return boxes[:, [1, 0, 3, 2]]
    if how == "xywh":
        return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    if how == "cxcywh":
        halves = boxes[:, 2:] / 2
        return np.concatenate([boxes[:, :2] - halves, boxes[:, :2] + halves], axis=1)
    return boxes


def in_pixels(numbers: np.ndarray, units: str, place: Placement) -> np.ndarray:
    """Numbers [..., 2 k] (x, y, x, y, ...) of the input in its pixels."""
    if units == "pixels":
        return numbers
    return numbers * np.tile(np.array(place.size, float), numbers.shape[-1] // 2)


@decoder("detection", "boxes")
@dataclass(frozen=True, kw_only=True)
class DecodedBoxes(ScoredBoxes):
    """Boxes [n, 4 and more] and scores [n, classes].

    Without ``scores`` those stand behind the box in each row; ``transposed``: rows are columns.
    Behind a box there may be ``points`` keypoints, x and y of each.
    """

    boxes: str = members.text()
    scores: str | None = members.text(None)
    format: str = members.choice(FORMATS)
    units: str = members.choice(UNITS)
    transposed: bool = members.flag()

    def decode(self, reading: Reading) -> Answer:
        rows, least = reading.rows(self.boxes), 4 + 2 * self.points
        if self.transposed:
            array = np.squeeze(reading.array(self.boxes))
            rows = array.T if array.ndim == 2 else rows
        if rows.shape[1] < least + (self.scores is None):
            raise reading.misfit(self.boxes, "boxes")
        scores = rows[:, least:] if self.scores is None else reading.rows(self.scores)
        if len(scores) != len(rows) and self.scores is not None:
            scores = reading.rows(self.scores, 1)
        if len(scores) != len(rows):
            raise reading.misfit(self.scores or self.boxes, f"scores for {len(rows)} boxes")
        corners = corners_of(in_pixels(rows[:, :4], self.units, reading.place), self.format)
        points = None
        if self.points:
            points = in_pixels(rows[:, 4:least], self.units, reading.place)
            points = points.reshape(len(rows), self.points, 2)
        return self.answer(corners, scores, points, reading)


@decoder("detection", "rows")
@dataclass(frozen=True, kw_only=True)
class DetectionRows(Decoder):
    """Rows with a class, a score and a box, as the last layers of ncnn and OpenVINO give them.

    ``number``, ``score``, ``box``: the columns of the class, the score, and the first of the box.
    ``picture``: the column with the number of the picture, which is below 0 behind the last row.
    """

    rows: str = members.text()
    number: int = members.whole(0, most=64, key="class")
    score: int = members.whole(1, most=64)
    box: int = members.whole(2, most=64)
    picture: int | None = members.whole(None, most=64)
    format: str = members.choice(FORMATS)
    units: str = members.choice(UNITS)

    def decode(self, reading: Reading) -> Answer:
        rows = reading.rows(self.rows)
        if not rows.size:
            return Answer("detection", reading.place.picture)
        number, score, box = self.number, self.score, self.box
        if rows.shape[1] <= max(number, score, box + 3, self.picture or 0):
            raise reading.misfit(self.rows, "columns")
        if self.picture is not None:
            ended = np.flatnonzero(rows[:, self.picture] < 0)
            rows = rows[: ended[0]] if len(ended) else rows
        rows = rows[np.isfinite(rows).all(axis=1)]
        corners = corners_of(
            in_pixels(rows[:, box : box + 4], self.units, reading.place), self.format
        )
        return answer_of(Boxes(corners, rows[:, score], rows[:, number].astype(int)), reading)


@decoder("detection", "post-process")
@dataclass(frozen=True, kw_only=True)
class PostProcess(Decoder):
    """The four outputs of TFLite_Detection_PostProcess.

    Boxes (top, left, bottom, right in fractions), classes, scores and the number of boxes.
    """

    outputs: tuple[str, ...] = members.texts()

    @classmethod
    def read(cls, fields: Fields) -> PostProcess:
        made = super().read(fields)
        if len(made.outputs) != 4:
            fields.fail("outputs", "are boxes, classes, scores and count: four names")
        return made

    def decode(self, reading: Reading) -> Answer:
        rows = reading.rows(self.outputs[0], 4)
        classes, scores, count = (reading.array(n).reshape(-1) for n in self.outputs[1:])
        if not len(rows) == len(classes) == len(scores) or not count.size:
            raise reading.misfit(self.outputs[1], f"classes of {len(rows)} boxes")
        there = int(np.nan_to_num(count[0]).clip(0, len(rows)))
        rows, classes, scores = rows[:there], classes[:there], scores[:there]
        corners = in_pixels(corners_of(rows, "yxyx"), "fraction", reading.place)
        return answer_of(Boxes(corners, scores, np.nan_to_num(classes).astype(int)), reading)
