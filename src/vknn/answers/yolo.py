"""Detections of YOLO's heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer
from vknn.answers.decoder import LAYOUTS, Decoder, Reading, activated, decoder
from vknn.answers.detections import Boxes, answer_of, best_classes
from vknn.answers.fields import REQUIRED, Fields
from vknn.answers.heads import MOST_STRIDE, cells
from vknn.answers.members import Members
from vknn.answers.rows import corners_of


@dataclass(frozen=True, kw_only=True)
class AnchorLevel(Members):
    """A level's stride and the sides of its anchors: for coder "x" none, where they are strides."""

    stride: int = members.whole(least=1, most=MOST_STRIDE)
    anchors: tuple[tuple[float, float], ...] = members.member(
        lambda fields, key: fields.sides(key) if fields.has(key) else ()
    )

    @property
    def sides(self) -> tuple[tuple[float, float], ...]:
        """Width and height of each anchor."""
        return self.anchors or ((float(self.stride),) * 2,)


@decoder("detection", "yolo")
@dataclass(frozen=True, kw_only=True)
class Yolo(Decoder):
    """YOLO's heads: in each cell for each anchor x, y, w, h, whether there is something, classes.

    ``coder``: "v3" (sigmoid(x) + cell, anchor * e^w), "v5" (2 sigmoid(x) - 0.5 + cell,
    anchor * (2 sigmoid(w))^2), "x" (x + cell, stride * e^w: YOLOX, whose anchors are the strides
    and whose scores are scores already). Outputs: one for each level, [A * (5 + C), H, W] ("chw")
    or [H, W, A * (5 + C)] ("hwc"); or one for all, [n, 5 + C] ("rows", what one output for several
    levels means), level by level, and in each anchor by anchor.
    """

    coder: str = members.choice(("v3", "v5", "x"), REQUIRED)
    outputs: tuple[str, ...] = members.texts()
    levels: tuple[AnchorLevel, ...] = members.each(AnchorLevel)
    layout: str | None = members.choice((*LAYOUTS, "rows"), None)

    @classmethod
    def read(cls, fields: Fields) -> Yolo:
        made = super().read(fields)
        for index, level in enumerate(made.levels):
            if bool(level.anchors) == (made.coder == "x"):
                problem = "there are none for coder 'x'" if level.anchors else "is missing"
                fields.fail(f"levels[{index}].anchors", problem)
        count = len(made.levels)
        if len(made.outputs) != (1 if made.in_rows else count):
            shape = made.layout or "chw"
            fields.fail("outputs", f"are {len(made.outputs)} for {count} levels in {shape!r}")
        return made

    @property
    def in_rows(self) -> bool:
        """Whether one output has the rows of all levels."""
        if self.layout is None:
            return len(self.outputs) == 1 < len(self.levels)
        return self.layout == "rows"

    def decode(self, reading: Reading) -> Answer:
        size = reading.place.size
        grid = np.concatenate([_anchored(cells(size, v.stride), v) for v in self.levels])
        if self.in_rows:
            rows = reading.rows(self.outputs[0])
        else:
            named = zip(self.outputs, self.levels, strict=True)
            rows = np.concatenate([self._map(reading, *each) for each in named])
        if len(rows) != len(grid) or rows.shape[1] < 5:
            raise reading.misfit(self.outputs[0], f"{len(grid)} anchors")
        if self.coder != "x":
            rows = activated(rows, "sigmoid") if self.coder == "v5" else _v3(rows)
        scores = rows[:, 5:] if rows.shape[1] > 5 else np.ones((len(rows), 1))
        numbers, best = best_classes(scores)
        boxes = Boxes(self._corners(rows, grid), best * rows[:, 4], numbers)
        return answer_of(boxes, reading.of_classes(scores.shape[1]))

    def _corners(self, rows: np.ndarray, grid: np.ndarray) -> np.ndarray:
        """Corners for rows, of v3 and v5 behind their sigmoids, and for cell, stride and anchor."""
        cell, stride, anchors = grid[:, :2], grid[:, 2:3], grid[:, 3:]
        with np.errstate(all="ignore"):
            if self.coder == "v5":
                centres, sizes = 2 * rows[:, :2] - 0.5 + cell, anchors * (2 * rows[:, 2:4]) ** 2
            else:
                centres, sizes = rows[:, :2] + cell, anchors * np.exp(rows[:, 2:4])
        return corners_of(np.concatenate([centres * stride, sizes], axis=1), "cxcywh")

    def _map(self, reading: Reading, name: str, level: AnchorLevel) -> np.ndarray:
        """A level's output as rows [A * cells, 5 + C]."""
        count = len(level.sides)
        planes = reading.planes(name, self.layout or "chw")
        if planes.shape[0] % count:
            raise reading.misfit(name, f"{count} anchors")
        return (
            planes.reshape(count, planes.shape[0] // count, -1)
            .transpose(0, 2, 1)
            .reshape(-1, planes.shape[0] // count)
        )


def _anchored(grid: np.ndarray, level: AnchorLevel) -> np.ndarray:
    """Cell x, y, stride, anchor width, height: of all cells for the first anchor, and so on."""
    columns = (np.tile((level.stride, *side), (len(grid), 1)) for side in level.sides)
    return np.concatenate([np.column_stack([grid, each]) for each in columns])


def _v3(rows: np.ndarray) -> np.ndarray:
    """Rows behind the sigmoids, which the sizes have none of."""
    made = activated(rows, "sigmoid")
    made[:, 2:4] = rows[:, 2:4]
    return made
