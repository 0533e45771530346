"""PriorBox and DetectionOutput of SSD."""

from __future__ import annotations

import math

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype
from vknn.ops.detection.yolo import suppress


@attributes
class PriorBox(Op):
    """Boxes of given sizes about each place of a feature map; it has no inputs.

    ``sizes`` are the (width, height) of the boxes at each place. Place (row, column) of ``feature``
    (height, width) has its centre at ``first`` + ``step`` * (row, column), both (vertical,
    horizontal). Everything is divided by ``image`` (height, width), and with ``clip`` cut off at 0
    and 1.

    Output [1, height * width * boxes * 4]: x1, y1, x2, y2 of each. With ``variances`` [1, 2, ...],
    these behind the boxes, repeated.
    """

    feature: tuple[int, int]
    sizes: tuple[tuple[float, float], ...]
    step: tuple[float, float]
    first: tuple[float, float]
    image: tuple[float, float] = (1.0, 1.0)
    clip: bool = False
    variances: tuple[float, float, float, float] | None = None

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        arguments(self, inputs, 0)
        require(min(self.feature) >= 1, f"PriorBox: feature {self.feature}")
        require(len(self.sizes) >= 1, "PriorBox: no sizes")
        count = 4 * math.prod(self.feature) * len(self.sizes)
        return (TensorType((1, count) if self.variances is None else (1, 2, count)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        arguments(self, inputs, 0)
        rows, columns = (
            first + step * np.arange(n)
            for n, first, step in zip(self.feature, self.first, self.step, strict=True)
        )
        half = np.asarray(self.sizes, np.float64) / 2
        centres = np.stack(np.meshgrid(columns, rows), axis=-1)[:, :, None]
        with np.errstate(all="ignore"):
            scale = np.array(self.image[::-1], np.float64)
            corners = np.stack([centres - half, centres + half], axis=-2) / scale
        boxes = corners.reshape(1, -1)
        if self.clip:
            boxes = np.clip(boxes, 0.0, 1.0)
        if self.variances is not None:
            spread = np.tile(np.asarray(self.variances, np.float64), boxes.size // 4)
            boxes = np.stack([boxes, spread[None]], axis=1)
        return (boxes.astype(np.float32),)


@attributes
class DetectionOutput(Op):
    """Decoding of SSD's boxes, and in each class suppresses those that overlap a better one.

    Inputs: location [1, P * 4], x, y, w, h of each of P boxes; confidence [1, P * C] of C classes,
    the class fastest, or with ``class_major`` the box; priors [1, 2 * P * 4], x1, y1, x2, y2 of
    each, then the variances, or with ``variances`` [1, P * 4].

    The centre is variance * xy * size + centre of the prior, the size exp(variance * wh) * size. In
    each class but ``background`` the best ``nms_top_k`` of more confidence than
    ``confidence_threshold`` are looked at, best first (equal ones in order of their number): a box
    goes when its intersection over union with one that stays exceeds ``nms_threshold``. Of all the
    best ``keep_top_k`` stay (equal ones in order of class).

    Output [1, n, 6], n depends on data: class, confidence, x1, y1, x2, y2.
    """

    num_class: int
    nms_threshold: float
    confidence_threshold: float
    nms_top_k: int
    keep_top_k: int
    variances: tuple[float, float, float, float] | None = None
    class_major: bool = False
    background: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        self.boxes(*inputs)
        return (TensorType((1, None, 6)),)

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        listed = len(self.classes) * min(self.nms_top_k, self.boxes(*inputs) or 0)
        return (TensorType((1, min(self.keep_top_k, listed), 6)),)

    @property
    def classes(self) -> list[int]:
        """The classes that are not the background."""
        return [c for c in range(self.num_class) if c != self.background]

    def boxes(self, *inputs: TensorType | None) -> int | None:
        """Number of boxes, None where it is not known; raises ShapeError."""
        location, confidence, priors = arguments(self, inputs, 3)
        require(self.num_class >= 1, f"DetectionOutput: {self.num_class} classes")
        good = min(self.nms_top_k, self.keep_top_k) >= 0
        require(good, f"DetectionOutput: top_k {self.nms_top_k}, {self.keep_top_k} below 0")
        require_dtype(self, DType.FLOAT32, location, confidence, priors)
        values = 8 if self.variances is None else 4
        count: int | None = None
        for what, type_, each in (
            ("priors", priors, values),
            ("location", location, 4),
            ("confidence", confidence, self.num_class),
        ):
            good = type_.rank == 2 and fits(type_.shape[0], 1)
            length = type_.shape[1] if good else 0
            if count is None and length is not None:
                good, count = good and length % each == 0, length // each
            good = good and (count is None or fits(length, count * each))
            boxes = "P" if count is None else count
            require(good, f"DetectionOutput: {what} {type_} should be [1, {boxes} * {each}]")
        return count

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        location, confidence, priors = arguments(self, inputs, 3)
        with np.errstate(all="ignore"):
            boxes = self._decoded(location, priors)
        scores = confidence.reshape(self.num_class, -1)
        if not self.class_major:
            scores = confidence.reshape(-1, self.num_class).T
        found = [np.zeros((0, 6), np.float32)]
        with np.errstate(all="ignore"):
            for label in self.classes:
                run_limits.check()
                order = np.argsort(-scores[label], kind="stable")
                order = order[scores[label][order] > np.float32(self.confidence_threshold)]
                order = order[: self.nms_top_k]
                kept = order[suppress(boxes[order], self.nms_threshold)]
                head = np.full((len(kept), 1), label, np.float32)
                found.append(np.hstack([head, scores[label][kept, None], boxes[kept]]))
        rows = np.concatenate(found)
        rows = rows[np.argsort(-rows[:, 1], kind="stable")][: self.keep_top_k]
        return (rows[None],)

    def _decoded(self, location: np.ndarray, priors: np.ndarray) -> np.ndarray:
        """[P, 4] in float32."""
        deltas = location.reshape(-1, 4)
        if self.variances is None:
            corners, spread = priors.reshape(2, -1, 4)
        else:
            corners, spread = priors.reshape(-1, 4), np.asarray(self.variances, np.float32)
        sizes = corners[:, 2:] - corners[:, :2]
        centres = (corners[:, :2] + corners[:, 2:]) * np.float32(0.5)
        moved = spread[..., :2] * deltas[:, :2] * sizes + centres
        half = np.exp(spread[..., 2:] * deltas[:, 2:]) * sizes * np.float32(0.5)
        return np.hstack([moved - half, moved + half])
