"""Detections: boxes with classes and scores, chosen and brought into the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer, Found, Point
from vknn.answers.decoder import ACTIVATIONS, Decoder, Reading, activated
from vknn.answers.nms import suppressed
from vknn.pictures import Placement

#: Boxes with the best scores that non-maximum suppression looks at.
MOST_CANDIDATES = 4096


@dataclass(frozen=True)
class Boxes:
    """Boxes in pixels of the input.

    ``corners`` [n, 4]: left, top, right, bottom; ``scores`` [n]; ``classes`` [n], integers, or None
    where there are no classes; ``points`` [n, k, 2]: keypoints x, y, or None.
    """

    corners: np.ndarray
    scores: np.ndarray
    classes: np.ndarray | None
    points: np.ndarray | None = None

    def take(self, which: np.ndarray) -> Boxes:
        """The boxes of these indices."""
        return Boxes(
            self.corners[which],
            self.scores[which],
            None if self.classes is None else self.classes[which],
            None if self.points is None else self.points[which],
        )


@dataclass(frozen=True, kw_only=True)
class ScoredBoxes(Decoder):
    """Base of the decoders of boxes that have a score for each class, and maybe keypoints."""

    activation: str = members.choice(ACTIVATIONS)
    background: int | None = members.whole(None)
    points: int = members.whole(0, most=1024)
    names: tuple[str, ...] = members.texts(())

    def answer(
        self, corners: np.ndarray, scores: np.ndarray, points: np.ndarray | None, reading: Reading
    ) -> Answer:
        """The answer for boxes [n, 4], scores [n, classes] and keypoints [n, k, 2], or None."""
        numbers, best = best_classes(activated(scores, self.activation), self.background)
        fitted = reading.of_classes(scores.shape[1], self.background)
        return answer_of(Boxes(corners, best, numbers, points), fitted, self.names)


def best_classes(
    scores: np.ndarray, background: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The best class of each row of scores [n, classes], and its score; NaN counts as no score.

    ``background``: a column that is no class. Other columns keep their numbers.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    if background is not None and background < known.shape[1]:
        known[:, background] = -np.inf
    numbers = known.argmax(axis=1)
    return numbers, known[np.arange(len(known)), numbers]


def answer_of(boxes: Boxes, reading: Reading, names: tuple[str, ...] = ()) -> Answer:
    """The answer for boxes: those of a score of at least the threshold, without doubles.

    Boxes that are not finite, that have no area or that lie beside the picture are left out.
    """
    with np.errstate(all="ignore"):
        real = np.isfinite(boxes.corners).all(axis=1) & np.isfinite(boxes.scores)
        boxes = boxes.take(np.flatnonzero(real & (boxes.scores >= reading.threshold)))
    order = np.argsort(-boxes.scores, kind="stable")[:MOST_CANDIDATES]
    boxes = boxes.take(order)
    corners = in_picture(boxes.corners, reading.place)
    seen = np.flatnonzero((corners[:, 2:] > corners[:, :2]).all(axis=1))
    boxes, corners = boxes.take(seen), corners[seen]
    if reading.iou is not None:
        classes = np.zeros(len(seen), int) if boxes.classes is None else boxes.classes
        kept = suppressed(boxes.corners, boxes.scores, classes, reading.iou, reading.most)
        boxes, corners = boxes.take(kept), corners[kept]
    count = min(len(corners), reading.most)
    found = tuple(_thing(boxes, corners, i, reading, names) for i in range(count))
    return Answer("detection", reading.place.picture, found)


def in_picture(corners: np.ndarray, place: Placement) -> np.ndarray:
    """Boxes [n, 4] of the input in pixels of the picture, cut at its edges."""
    ends = place.to_picture(corners.reshape(-1, 2, 2))
    return ends.clip(0, np.array(place.picture, float)).reshape(-1, 4)


def points_of(
    spots: np.ndarray, scores: np.ndarray | None, place: Placement, names: tuple[str, ...]
) -> tuple[Point, ...]:
    """Keypoints for places [k, 2] in the input and scores [k]; those not finite are not found."""
    made = []
    for index, (x, y) in enumerate(place.to_picture(spots).tolist()):
        score = None if scores is None else float(scores[index])
        if not np.isfinite((x, y, score or 0.0)).all():
            x, y, score = math.nan, math.nan, None if score is None else 0.0
        made.append(Point(x, y, score, names[index] if index < len(names) else None))
    return tuple(made)


def _thing(
    boxes: Boxes, corners: np.ndarray, index: int, reading: Reading, names: tuple[str, ...]
) -> Found:
    left, top, right, bottom = corners[index].tolist()
    number = None if boxes.classes is None else int(boxes.classes[index])
    points: tuple[Point, ...] = ()
    if boxes.points is not None:
        points = points_of(boxes.points[index], None, reading.place, names)
    label = reading.labels.of(number or 0)
    return Found(number, label, float(boxes.scores[index]), (left, top, right, bottom), points)
