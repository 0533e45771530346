"""Answers: what a network found in a picture, in pixels of the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Point:
    """A keypoint.

    Attributes:
        x: Pixels from the left edge of the picture; NaN where the point was not found.
        y: Pixels from its upper edge, likewise.
        score: How sure the network is, None where it does not say, 0 where it was not found.
        name: Name of the point, None where nothing says it.
    """

    x: float
    y: float
    score: float | None = None
    name: str | None = None

    @property
    def is_found(self) -> bool:
        """Whether it has a place."""
        return math.isfinite(self.x) and math.isfinite(self.y)


@dataclass(frozen=True)
class Found:
    """A thing in the picture.

    Attributes:
        number: The class, as a number; None where there are no classes.
        label: Its name; None where no list of labels has it.
        score: How sure the network is.
        box: Left, top, right and bottom in pixels; None where there is only points.
        points: Its keypoints.
    """

    number: int | None
    label: str | None
    score: float
    box: tuple[float, float, float, float] | None = None
    points: tuple[Point, ...] = ()

    @property
    def text(self) -> str:
        """Its label, or its class number."""
        return self.label or ("" if self.number is None else str(self.number))


@dataclass(frozen=True)
class Score:
    """The score of a class. ``output``: name of the output that gives it."""

    output: str
    number: int
    label: str | None
    score: float

    @property
    def text(self) -> str:
        """Its label, or its class number."""
        return self.label or str(self.number)


@dataclass(frozen=True)
class Share:
    """The pixels of a class of a mask. ``share``: their part of the picture."""

    number: int
    label: str | None
    pixels: int
    share: float

    @property
    def text(self) -> str:
        """Its label, or its class number."""
        return self.label or str(self.number)


@dataclass(frozen=True)
class Answer:
    """Answer of a network to a picture.

    Attributes:
        task: "detection", "keypoints", "segmentation", "image" or "classification".
        picture: Width and height of the picture.
        found: Things, the surest first (detection, keypoints).
        scores: The best classes of each output (classification).
        shares: The classes of the mask, the largest first (segmentation).
        mask: Class of each pixel of the picture, int32 [height, width] (segmentation), else None.
        image: Picture that the network made, uint8 [height, width, 3] in RGB (image), else None.
        skeleton: Pairs of keypoints, as indices, that a line joins.
        threshold: The lowest score of what was looked for. Keypoints below it, and those that were
            not found, are told, so that their numbers keep their meaning, and not drawn.
    """

    task: str
    picture: tuple[int, int]
    found: tuple[Found, ...] = ()
    scores: tuple[Score, ...] = ()
    shares: tuple[Share, ...] = ()
    mask: np.ndarray | None = field(default=None, repr=False)
    image: np.ndarray | None = field(default=None, repr=False)
    skeleton: tuple[tuple[int, int], ...] = ()
    threshold: float = 0.0

    def __str__(self) -> str:
        """The answer in a line."""
        if self.image is not None:
            return f"a picture of {self.image.shape[1]}x{self.image.shape[0]}"
        if self.task == "classification":
            return ", ".join(f"{s.text} {s.score:.4g}" for s in self.scores) or "no class"
        if self.task == "segmentation":
            return ", ".join(f"{s.text} {100 * s.share:.1f} %" for s in self.shares)
        return "; ".join(map(_sentence, self.found)) or "nothing found"

    def to_json(self) -> dict[str, Any]:
        """The answer as JSON has it; of masks the counts of pixels, of a picture its size."""
        made: dict[str, Any] = {"task": self.task, "picture": list(self.picture)}
        if self.task in ("detection", "keypoints"):
            made["found"] = [_thing(thing) for thing in self.found]
        elif self.task == "classification":
            made["scores"] = [
                {"output": s.output, "class": s.number, "label": s.label, "score": s.score}
                for s in self.scores
            ]
        elif self.task == "segmentation":
            made["classes"] = [
                {"class": s.number, "label": s.label, "pixels": s.pixels, "share": s.share}
                for s in self.shares
            ]
        elif self.image is not None:
            made["image"] = [self.image.shape[1], self.image.shape[0]]
        return made


def _sentence(thing: Found) -> str:
    text = f"{thing.text} {thing.score:.2f}".strip()
    if thing.box is not None:
        text += " at " + ",".join(f"{side:.0f}" for side in thing.box)
    there = sum(point.is_found for point in thing.points)
    return text + (f" with {there} points" if there else "")


def _thing(thing: Found) -> dict[str, Any]:
    made: dict[str, Any] = {"class": thing.number, "label": thing.label, "score": thing.score}
    if thing.box is not None:
        made["box"] = [round(side, 2) for side in thing.box]
    if thing.points:
        made["points"] = list(map(_point, thing.points))
    return made


def _point(point: Point) -> dict[str, Any]:
    x, y = (round(point.x, 2), round(point.y, 2)) if point.is_found else (None, None)
    return {"name": point.name, "x": x, "y": y, "score": point.score}
