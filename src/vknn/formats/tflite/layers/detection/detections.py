"""Options, box decoding and suppression of TFLite_Detection_PostProcess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import dequantized
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.elementwise.logic import GreaterOrEqual, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.topk import TopK
from vknn.ops.movement.shape import Concat, Expand, Pad, Slice
from vknn.ops.reduction import ReduceSum

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class PostProcessOptions:
    """Checked options of the operator. ``scales``: divisors of encoded y, x, h and w."""

    detections: int
    classes: int
    classes_each: int
    per_class: int
    regular: bool
    least_score: float
    iou: float
    scales: tuple[float, float, float, float]

    @classmethod
    def of(cls, c: Context) -> PostProcessOptions:
        """The options of the operator. Raises Malformed."""
        options = c.options
        made = cls(
            _whole(c, "max_detections"),
            _whole(c, "num_classes"),
            _whole(c, "max_classes_per_detection"),
            _whole(c, "detections_per_class", 100),
            bool(options.get("use_regular_nms") or False),
            _real(c, "nms_score_threshold"),
            _real(c, "nms_iou_threshold"),
            (_real(c, "y_scale"), _real(c, "x_scale"), _real(c, "h_scale"), _real(c, "w_scale")),
        )
        c.require(made.detections >= 0, f"has max_detections {made.detections}")
        c.require(made.classes_each > 0, f"has max_classes_per_detection {made.classes_each}")
        c.require(made.per_class > 0, f"has detections_per_class {made.per_class}")
        c.require(0 < made.iou <= 1, f"has nms_iou_threshold {made.iou}")
        c.require(0.0 not in made.scales, f"has the scales {made.scales}")
        made._check_shapes(c)
        return made

    def _check_shapes(self, c: Context) -> None:
        boxes, scores, anchors = (c.value(i).type for i in range(3))
        good = boxes.rank == scores.rank == 3 and boxes.dims[0] == scores.dims[0] == 1
        good = good and boxes.dims[1] == scores.dims[1] and boxes.dims[2] >= 4
        good = good and anchors.dims == (boxes.dims[1], 4)
        c.require(good, f"has boxes {boxes}, scores {scores} and anchors {anchors}")
        offset = scores.dims[2] - self.classes
        c.require(offset in (0, 1) and self.classes > 0,
                  f"has {self.classes} classes and scores {scores}")  # fmt: skip
        c.require(boxes.dims[1] > 0, "has no boxes")

    @property
    def rows(self) -> int:
        """Number of rows of the outputs."""
        return self.detections * self.classes_each


def _option(c: Context, name: str, default: float | None) -> float:
    found = c.options.get(name)
    found = default if found is None else found
    c.require(isinstance(found, int | float), f"has no number as option {name!r}: {found!r}")
    return found  # type: ignore[return-value]


def _whole(c: Context, name: str, default: int = 0) -> int:
    found = _option(c, name, default)
    c.require(abs(found) < 1 << 24, f"has {name} {found}")
    return int(found)


def _real(c: Context, name: str) -> float:
    return float(np.float32(_option(c, name, 0.0)))


def decoded_boxes(c: Context, options: PostProcessOptions) -> Value:
    """Boxes [n, 4] (y1, x1, y2, x2) from encodings (y, x, h, w) relative to anchors.

    The encoding is that of SSD (Liu et al. 2016): centres relative to the anchor's size, sizes as
    logarithms.
    """
    encoded, anchors = dequantized(c, 0), dequantized(c, 2)
    count = encoded.type.dims[1]
    encoded = c.reshape(c.add(Slice((0,), (4,), (2,)), encoded), (count, 4))
    scales = c.constant(np.array(options.scales, np.float32), "scales")
    scaled = c.add(ew.Div(), encoded, scales)

    def half(x: Value, first: int) -> Value:
        return c.add(Slice((first,), (first + 2,), (1,)), x)

    size = half(anchors, 2)
    centre = c.add(ew.Add(), c.add(ew.Mul(), half(scaled, 0), size), half(anchors, 0))
    reach = c.add(ew.Mul(), c.add(ew.Exp(), half(scaled, 2)), size)
    reach = c.add(ew.Mul(), reach, c.scalar(0.5))
    corners = (c.add(ew.Sub(), centre, reach), c.add(ew.Add(), centre, reach))
    return c.add(Concat(1), *corners)


@dataclass(frozen=True)
class Detections:
    """Boxes [n, 4], scores [1, n, first + classes]; ``first``: 1 where class 0 is background."""

    c: Context
    options: PostProcessOptions
    boxes: Value
    scores: Value
    first: int

    def by_box(self) -> list[Value]:
        """Outputs with suppression by the best score of each box, which gets its best classes."""
        c, s = self.c, self.options
        count, own = self.boxes.type.dims[0], min(s.classes_each, s.classes)
        scores = c.reshape(self._class_scores(), (count, s.classes))
        values, labels = c.add_many(TopK(1, own), scores)
        best = c.reshape(c.add(Slice((0,), (1,), (1,)), values), (1, 1, count))
        indices, _, counts = self._suppressed(best, s.detections)
        chosen = c.reshape(indices, (s.detections,))
        place = c.add(ew.Max(), chosen, c.scalar(0, DType.INT32))
        there = c.add(GreaterOrEqual(), chosen, c.scalar(0, DType.INT32))
        boxes = self._masked(there, c.add(Gather(), self.boxes, place))
        boxes = c.reshape(boxes, (s.detections, 1, 4))
        boxes = c.add(Expand((s.detections, own, 4)), boxes)
        classes = self._masked(there, c.add(ew.Cast(DType.FLOAT32), c.add(Gather(), labels, place)))
        values = self._masked(there, c.add(Gather(), values, place))
        more = s.classes_each - own
        results = [
            c.reshape(self._padded(boxes, 1, more), (1, s.rows, 4)),
            c.reshape(self._padded(classes, 1, more), (1, s.rows)),
            c.reshape(self._padded(values, 1, more), (1, s.rows)),
        ]
        return [*results, c.reshape(c.add(ew.Cast(DType.FLOAT32), counts), (1,))]

    def by_class(self) -> list[Value]:
        """Outputs with suppression class by class, of which the best of all classes are kept."""
        c, s = self.c, self.options
        count = self.boxes.type.dims[0]
        scores = c.transpose(self._class_scores(), (0, 2, 1))
        each = min(s.per_class, count)
        indices, best, _ = self._suppressed(scores, each)
        total = s.classes * each
        taken = min(s.detections, total)
        chosen = c.reshape(indices, (total,))
        there = c.add(GreaterOrEqual(), chosen, c.scalar(0, DType.INT32))
        best = c.add(Where(), there, c.reshape(best, (total,)), c.scalar(_LOWEST))
        values, order = c.add_many(TopK(0, taken), best)
        there = c.add(Gather(), c.add(ew.Cast(DType.INT32), there), order)
        number = c.add(ew.Cast(DType.FLOAT32), c.add(ReduceSum((0,)), there))
        there = c.add(ew.Cast(DType.BOOL), there)
        place = c.add(ew.Max(), c.add(Gather(), chosen, order), c.scalar(0, DType.INT32))
        labels = c.add(ew.FloorDiv(), order, c.scalar(each, DType.INT32))
        found = (
            c.add(Gather(), self.boxes, place),
            c.add(ew.Cast(DType.FLOAT32), labels),
            values,
        )
        rows = [self._padded(self._masked(there, v), 0, s.rows - taken) for v in found]
        return [*(c.reshape(v, (1, *v.type.dims)) for v in rows), number]

    def _class_scores(self) -> Value:
        """The scores without those of the background."""
        s = self.options
        part = Slice((self.first,), (self.first + s.classes,), (2,))
        return self.c.add(part, self.scores) if self.first else self.scores

    def _suppressed(self, scores: Value, most: int) -> tuple[Value, ...]:
        s = self.options
        op = NonMaxSuppression(most, s.iou, s.least_score, score_inclusive=True)
        boxes = self.c.reshape(self.boxes, (1, *self.boxes.type.dims))
        return self.c.add_many(op, boxes, scores)

    def _masked(self, there: Value, rows: Value) -> Value:
        """``rows`` where there is a detection, else zeros."""
        c = self.c
        mask = c.reshape(there, (rows.type.dims[0], *[1] * (rows.type.rank - 1)))
        return c.add(Where(), mask, rows, c.scalar(0.0))

    def _padded(self, x: Value, axis: int, more: int) -> Value:
        ends = [0] * x.type.rank
        ends[axis] = more
        return self.c.add(Pad((*[0] * x.type.rank, *ends)), x) if more else x
