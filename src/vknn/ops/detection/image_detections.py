"""ImageDetections: SSD heads of several images decoded, suppressed and listed."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_dtype
from vknn.ops.detection.yolo import suppress

#: The lowest finite number: the score of what is not there.
LOWEST = np.finfo(np.float32).min


@attributes
class ImageDetections(Op):
    """Decoding of SSD's boxes of N images; boxes go that overlap a better one of their class.

    Inputs: location [N, P * L * 4], four numbers for each of P priors and L lists of boxes (1, or
    with ``own_boxes`` one for each class); confidence [N, P * C] of C classes, the class fastest;
    priors [1 or N, 2, P * 4], x1, y1, x2, y2 of each, then the variances, or with ``encoded``
    [1 or N, 1, P * 4]; optional refinement [N, P * 4], by which the priors are moved first (in the
    same way as the boxes are moved afterwards) and divided by ``refined_size``
    (width, height).

    With ``corners`` a corner moves by variance * location. Otherwise the centre is variance * xy *
    size + centre of the prior, the size exp(variance * wh) * size. ``encoded`` means no variances.
    With ``clip_before`` corners are cut off at 0 and 1, with ``clip_after`` those of the result.

    In each class but ``background`` the best ``top_k`` (-1: all) of more confidence than
    ``confidence_threshold`` are looked at, best first (equal ones in order of their number): a box
    goes when its intersection over union with one that stays exceeds ``nms_threshold``. With
    ``best_class`` each prior counts only for the class it has most confidence in (from 1 on; of
    equal ones the first), with at least the threshold; ``top_k`` then counts all classes of an
    image together, equal ones in order of class and number, and the class is written less 1. Of an
    image the best ``keep_top_k`` (-1: all) stay, equal ones in order of class.

    Output [1, 1, rows, 7]: image, class, confidence, x1, y1, x2, y2, in order of image, class and
    falling confidence. The first row that is not needed begins with -1, the rest is 0.
    """

    num_class: int
    rows: int
    nms_threshold: float
    confidence_threshold: float = float(LOWEST)
    top_k: int = -1
    keep_top_k: int = -1
    background: int = 0
    corners: bool = False
    encoded: bool = False
    own_boxes: bool = False
    best_class: bool = False
    clip_before: bool = False
    clip_after: bool = False
    refined_size: tuple[int, int] = (1, 1)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        self.sizes(*inputs)
        return (TensorType((1, 1, self.rows, 7)),)

    @property
    def lists(self) -> int:
        """Lists of boxes that an image has."""
        return self.num_class if self.own_boxes else 1

    @property
    def classes(self) -> list[int]:
        """The classes that are not the background."""
        none = 0 if self.best_class else self.background
        return [c for c in range(self.num_class) if c != none]

    def sizes(self, *inputs: TensorType | None) -> tuple[int | None, int | None]:
        """Numbers of images and priors, None where they are not known; raises ShapeError."""
        location, confidence, priors, refinement = arguments(self, inputs, 3, optional=1)
        require(self.num_class >= 1, f"ImageDetections: {self.num_class} classes")
        require(min(self.top_k, self.keep_top_k) >= -1, f"ImageDetections: {self}")
        require(self.rows >= 0, f"ImageDetections: {self.rows} rows")
        require(min(self.refined_size) >= 1, f"ImageDetections: {self}")
        given = [t for t in (location, confidence, priors, refinement) if t is not None]
        require_dtype(self, DType.FLOAT32, *given)
        parts = 1 if self.encoded else 2
        good = priors.rank == 3 and fits(priors.shape[1], parts)
        require(good, f"ImageDetections: priors {priors} should be [1 or N, {parts}, P * 4]")
        count, images = None, confidence.shape[0] if confidence.rank else None
        if priors.shape[2] is not None:
            require(priors.shape[2] % 4 == 0, f"ImageDetections: priors {priors}")
            count = priors.shape[2] // 4
        good = fits(priors.shape[0], 1) or fits(priors.shape[0], images)
        require(good, f"ImageDetections: priors {priors} of {images} images")
        wanted = [(location, 4 * self.lists), (confidence, self.num_class)]
        wanted += [(refinement, 4)] if refinement is not None else []
        for type_, each in wanted:
            good = type_.rank == 2 and fits(type_.shape[0], images)
            good = good and (count is None or fits(type_.shape[1], count * each))
            require(good, f"ImageDetections: {type_} should be [{images}, {count} * {each}]")
        return images, count

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        location, confidence, priors, refinement = arguments(self, inputs, 3, optional=1)
        images, found = len(confidence), [np.zeros((0, 7), np.float32)]
        scores = confidence.reshape(images, -1, self.num_class)
        with np.errstate(all="ignore"):
            boxes = self._decoded(location, priors, refinement)
            if self.clip_after:
                shown = np.clip(boxes, np.float32(0), np.float32(1))
            for image in range(images):
                select = self._of_best_class if self.best_class else self._of_each_class
                kept = select(boxes[image], scores[image])
                kept = self._limited(kept)
                places = shown[image] if self.clip_after else boxes[image]
                found.append(self._rows(image, kept, places))
        listed = np.concatenate(found)[: self.rows]
        y = np.zeros((self.rows, 7), np.float32)
        y[: len(listed)] = listed
        if len(listed) < self.rows:
            y[len(listed), 0] = -1
        return (y[None, None],)

    def _of_each_class(
        self, boxes: np.ndarray, scores: np.ndarray
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """(class, numbers of priors, their scores), best first, for each class."""
        found = []
        for label in self.classes:
            run_limits.check()
            own, column = boxes[label if self.own_boxes else 0], scores[:, label]
            order = np.argsort(-column, kind="stable")
            order = order[column[order] > np.float32(self.confidence_threshold)]
            order = order[: self.top_k] if self.top_k >= 0 else order
            kept = order[suppress(own[order], self.nms_threshold)]
            found.append((label, kept, column[kept]))
        return found

    def _of_best_class(
        self, boxes: np.ndarray, scores: np.ndarray
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """As :meth:`_of_each_class`, where each prior has one class."""
        if self.num_class < 2:
            return []
        usable = np.where(scores[:, 1:] > -1, scores[:, 1:], -np.inf)
        labels, best = 1 + usable.argmax(axis=1), usable.max(axis=1)
        order = np.lexsort((np.arange(len(best)), labels, -best))
        alive = (best > -1) & (best >= np.float32(self.confidence_threshold))
        order = order[alive[order]]
        order = order[: self.top_k] if self.top_k >= 0 else order
        found = []
        for label in self.classes:
            own = order[labels[order] == label]
            kept = own[suppress(boxes[label if self.own_boxes else 0][own], self.nms_threshold)]
            found.append((label, kept, best[kept]))
        return found

    def _limited(
        self, kept: list[tuple[int, np.ndarray, np.ndarray]]
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """The best ``keep_top_k`` of all classes."""
        if self.keep_top_k < 0 or not kept:
            return kept
        owner = np.concatenate([np.full(len(which), i) for i, (_, which, _) in enumerate(kept)])
        scores = np.concatenate([scores for _, _, scores in kept])
        best = np.argsort(-scores, kind="stable")[: self.keep_top_k]
        counts = np.bincount(owner[best].astype(np.int64), minlength=len(kept))
        return [
            (label, which[:n], scores[:n])
            for (label, which, scores), n in zip(kept, counts, strict=True)
        ]

    def _rows(
        self, image: int, kept: list[tuple[int, np.ndarray, np.ndarray]], boxes: np.ndarray
    ) -> np.ndarray:
        rows = [np.zeros((0, 7), np.float32)]
        for label, which, scores in kept:
            head = np.empty((len(which), 3), np.float32)
            head[:] = image, label - int(self.best_class), 0
            head[:, 2] = scores
            rows.append(np.hstack([head, boxes[label if self.own_boxes else 0][which]]))
        return np.concatenate(rows)

    def _decoded(
        self, location: np.ndarray, priors: np.ndarray, refinement: np.ndarray | None
    ) -> np.ndarray:
        """[N, L, P, 4] in float32."""
        images = len(location)
        parts = priors.reshape(len(priors), -1, 1, priors.shape[2] // 4, 4)
        boxes, spread = parts[:, 0], None if self.encoded else parts[:, 1]
        if refinement is not None:
            boxes = self._moved(boxes, spread, refinement.reshape(images, 1, -1, 4))
            boxes = boxes / np.array(self.refined_size * 2, np.float32)
        deltas = location.reshape(images, -1, self.lists, 4).transpose(0, 2, 1, 3)
        return self._moved(boxes, spread, deltas)

    def _moved(
        self, priors: np.ndarray, spread: np.ndarray | None, deltas: np.ndarray
    ) -> np.ndarray:
        deltas = deltas if spread is None else spread * deltas
        if self.corners:
            boxes = priors + deltas
        else:
            sizes = priors[..., 2:] - priors[..., :2]
            centres = (priors[..., :2] + priors[..., 2:]) * np.float32(0.5)
            moved = deltas[..., :2] * sizes + centres
            half = np.exp(deltas[..., 2:]) * sizes * np.float32(0.5)
            boxes = np.concatenate([moved - half, moved + half], axis=-1)
        return np.clip(boxes, np.float32(0), np.float32(1)) if self.clip_before else boxes
