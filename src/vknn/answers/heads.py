"""Detections of networks that end before their boxes are decoded: priors, grids, distances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.answers.answer import Answer
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, Decoder, Reading, activated, decoder
from vknn.answers.detections import Boxes, answer_of, best_classes
from vknn.answers.fields import Fields
from vknn.answers.rows import corners_of

STRIDES = (1, 1 << 12)


@dataclass(frozen=True)
class Level:
    """A feature map: pixels of the input to a cell, and the sides of its priors, [w, h] each."""

    stride: int
    sizes: tuple[tuple[float, float], ...]

    @classmethod
    def read(cls, fields: Fields) -> Level:
        """Level of {"stride", "sizes": numbers or pairs} or {"stride", "count"}."""
        stride = fields.whole("stride", least=1, most=STRIDES[1])
        if fields.has("count"):
            count = fields.whole("count", least=1, most=1024)
            sizes: tuple[tuple[float, float], ...] = ((1.0, 1.0),) * count
        else:
            sizes = tuple(_side(fields, v) for v in fields.items("sizes"))
        if not sizes:
            fields.fail("sizes", "is empty")
        fields.end()
        return cls(stride, sizes)

    def priors(self, size: tuple[int, int]) -> np.ndarray:
        """Centre x, y, width and height in pixels, [n, 4], for an input of (width, height)."""
        grid = cells(size, self.stride)
        centres = np.repeat((grid + 0.5) * self.stride, len(self.sizes), axis=0)
        return np.concatenate([centres, np.tile(np.array(self.sizes), (len(grid), 1))], axis=1)


def _side(fields: Fields, value: object) -> tuple[float, float]:
    """A square's side or [width, height]."""
    pair = value if isinstance(value, list) else [value, value]
    inner = Fields({"size": pair}, fields._place("sizes"), fields.file)
    width, height = inner.numbers("size", count=2, least=1e-6)
    return width, height


def cells(size: tuple[int, int], stride: int) -> np.ndarray:
    """Column and row of each cell of a feature map, row by row, [n, 2]."""
    columns, rows = (math.ceil(side / stride) for side in size)
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


@decoder("detection", "priors")
@dataclass(frozen=True)
class Priors(Decoder):
    """SSD's heads: how each prior is to be moved, [n, 4 and more], and scores [n, classes].

    ``coder`` "ssd": centre + variance * offset * side, side * e^(variance * offset); "pixels":
    centre + offset, and sizes as they are, in pixels (BlazeFace). ``clip``: priors are cut to the
    input, in the sense of the SSD code (centres and sides to at most the input's).
    """

    boxes: str
    scores: str
    levels: tuple[Level, ...]
    coder: str
    variances: tuple[float, ...]
    clip: bool
    activation: str
    background: int | None
    points: int
    names: tuple[str, ...]

    @classmethod
    def read(cls, fields: Fields) -> Priors:
        return cls(
            fields.text("boxes"),
            fields.text("scores"),
            tuple(Level.read(level) for level in fields.each("levels")),
            fields.choice("coder", ("ssd", "pixels"), "ssd"),
            fields.numbers("variances", (0.1, 0.2), count=2),
            fields.flag("clip", False),
            fields.choice("activation", ACTIVATIONS, "none"),
            fields.whole("background", None),
            fields.whole("points", 0, most=1024),
            fields.texts("names", ()),
        )

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
        numbers, best = best_classes(activated(scores, self.activation), self.background)
        corners = corners_of(self._moved(priors, moves), "cxcywh")
        points = None
        if self.points:
            pairs = moves[:, 4 : 4 + 2 * self.points].reshape(len(moves), self.points, 2)
            if self.coder == "ssd":
                pairs = pairs * self.variances[0] * priors[:, None, 2:]
            points = pairs + priors[:, None, :2]
        return answer_of(Boxes(corners, best, numbers, points), reading, self.names)

    def _moved(self, priors: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Boxes as centre and size."""
        if self.coder == "pixels":
            return np.concatenate([priors[:, :2] + moves[:, :2], moves[:, 2:4]], axis=1)
        centres = priors[:, :2] + self.variances[0] * moves[:, :2] * priors[:, 2:]
        with np.errstate(all="ignore"):  # what is not finite is left out
            sizes = priors[:, 2:] * np.exp(self.variances[1] * moves[:, 2:4])
        return np.concatenate([centres, sizes], axis=1)


@decoder("detection", "distances")
@dataclass(frozen=True)
class Distances(Decoder):
    """Scores of each cell, and how far the box's sides are from its centre (GFL, NanoDet).

    A distance is a distribution over whole numbers of strides: its mean after a softmax.
    ``levels``: stride, name of the scores [cells, classes], of the distances [cells, 4 * bins].
    """

    levels: tuple[tuple[int, str, str], ...]
    activation: str

    @classmethod
    def read(cls, fields: Fields) -> Distances:
        levels = []
        for level in fields.each("levels"):
            stride = level.whole("stride", least=1, most=STRIDES[1])
            levels.append((stride, level.text("scores"), level.text("distances")))
            level.end()
        if not levels:
            fields.fail("levels", "is empty")
        return cls(tuple(levels), fields.choice("activation", ACTIVATIONS, "none"))

    def decode(self, reading: Reading) -> Answer:
        parts = [self._level(reading, *level) for level in self.levels]
        corners, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        numbers, best = best_classes(activated(scores, self.activation))
        return answer_of(Boxes(corners, best, numbers), reading)

    def _level(
        self, reading: Reading, stride: int, scores: str, distances: str
    ) -> tuple[np.ndarray, np.ndarray]:
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


@decoder("detection", "yolo")
@dataclass(frozen=True)
class Yolo(Decoder):
    """YOLO's heads: in each cell for each anchor x, y, w, h, whether there is something, classes.

    ``coder``: "v3" (sigmoid(x) + cell, anchor * e^w), "v5" (2 sigmoid(x) - 0.5 + cell,
    anchor * (2 sigmoid(w))^2), "x" (x + cell, stride * e^w: YOLOX, whose anchors are the strides
    and whose scores are scores already). Outputs: one for each level, [A * (5 + C), H, W] ("chw")
    or [H, W, A * (5 + C)] ("hwc"); or one for all, [n, 5 + C] ("rows"), level by level, and in each
    anchor by anchor.
    """

    outputs: tuple[str, ...]
    strides: tuple[int, ...]
    anchors: tuple[tuple[tuple[float, float], ...], ...]
    coder: str
    layout: str

    @classmethod
    def read(cls, fields: Fields) -> Yolo:
        coder = fields.choice("coder", ("v3", "v5", "x"))
        outputs = fields.texts("outputs")
        levels = fields.each("levels")
        rows = len(outputs) == 1 and len(levels) > 1
        layout = fields.choice("layout", (*LAYOUTS, "rows"), "rows" if rows else "chw")
        strides, anchors = [], []
        for level in levels:
            strides.append(level.whole("stride", least=1, most=STRIDES[1]))
            sides = [(1.0, 1.0)]
            if coder != "x":
                sides = [_side(level, v) for v in level.items("anchors")]
            level.end()
            anchors.append(tuple(sides) if coder != "x" else ((float(strides[-1]),) * 2,))
        if not levels or len(outputs) != (1 if layout == "rows" else len(levels)):
            fields.fail("outputs", f"are {len(outputs)} for {len(levels)} levels in {layout!r}")
        return cls(outputs, tuple(strides), tuple(anchors), coder, layout)

    def decode(self, reading: Reading) -> Answer:
        size = reading.place.size
        made = [
            _anchored(cells(size, s), a, s) for s, a in zip(self.strides, self.anchors, strict=True)
        ]
        if self.layout != "rows":
            parts = [self._map(reading, i) for i in range(len(self.strides))]
            rows = np.concatenate(parts)
        else:
            rows = reading.rows(self.outputs[0])
        grid = np.concatenate(made)
        if len(rows) != len(grid) or rows.shape[1] < 5:
            raise reading.misfit(self.outputs[0], f"{len(grid)} anchors")
        if self.coder != "x":
            rows = activated(rows, "sigmoid") if self.coder == "v5" else _v3(rows)
        numbers, best = best_classes(rows[:, 5:] if rows.shape[1] > 5 else np.ones((len(rows), 1)))
        return answer_of(Boxes(self._corners(rows, grid), best * rows[:, 4], numbers), reading)

    def _corners(self, rows: np.ndarray, grid: np.ndarray) -> np.ndarray:
        """Corners for rows, of v3 and v5 behind their sigmoids, and for cell, stride and anchor."""
        cell, stride, anchors = grid[:, :2], grid[:, 2:3], grid[:, 3:]
        with np.errstate(all="ignore"):
            if self.coder == "v5":
                centres, sizes = 2 * rows[:, :2] - 0.5 + cell, anchors * (2 * rows[:, 2:4]) ** 2
            else:
                centres, sizes = rows[:, :2] + cell, anchors * np.exp(rows[:, 2:4])
        return corners_of(np.concatenate([centres * stride, sizes], axis=1), "cxcywh")

    def _map(self, reading: Reading, level: int) -> np.ndarray:
        """A level's output as rows [A * cells, 5 + C]."""
        name, count = self.outputs[level], len(self.anchors[level])
        planes = reading.planes(name, self.layout)
        if planes.shape[0] % count:
            raise reading.misfit(name, f"{count} anchors")
        return (
            planes.reshape(count, planes.shape[0] // count, -1)
            .transpose(0, 2, 1)
            .reshape(-1, planes.shape[0] // count)
        )


def _anchored(
    grid: np.ndarray, anchors: tuple[tuple[float, float], ...], stride: int
) -> np.ndarray:
    """Cell x, y, stride, anchor width, height: of all cells for the first anchor, and so on."""
    parts = [np.column_stack([grid, np.tile((stride, *side), (len(grid), 1))]) for side in anchors]
    return np.concatenate(parts)


def _v3(rows: np.ndarray) -> np.ndarray:
    """Rows behind the sigmoids, which the sizes have none of."""
    made = activated(rows, "sigmoid")
    made[:, 2:4] = rows[:, 2:4]
    return made
