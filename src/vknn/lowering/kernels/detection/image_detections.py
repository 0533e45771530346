"""Detections of several images: boxes decoded once, each class of each image a list of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.detection.box_lists import BoxLists, over_lanes
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.detection.image_detections import ImageDetections

#: More boxes than any list has.
_ALL = 1 << 30


@lowers(ImageDetections)
def image_detections(problem: Problem) -> Sequence[Candidate]:
    """Boxes decoded, scores picked, both sorted and suppressed; then the rows are gathered."""
    op, limits = problem.op, problem.limits
    assert isinstance(op, ImageDetections)
    images, boxes = op.sizes(*problem.inputs)
    used = 1 if op.best_class else len(op.classes)
    if not images or not boxes or used * op.rows == 0 or not op.classes:
        return []
    most = boxes if op.top_k < 0 else min(op.top_k, boxes)
    keep = _ALL if op.keep_top_k < 0 else min(op.keep_top_k, _ALL)
    lists = BoxLists(
        images * used,
        boxes,
        most,
        keep,
        op.nms_threshold,
        skipped=op.background if op.background >= 0 else op.num_class,
        classes=used,
        lists=op.lists,
        labelled=op.best_class,
    )
    work = _Work(op, lists, images, used, keep)
    halvings = most.bit_length() + 1
    good = most > 0 and keep > 0 and lists.fits(limits) and fits_buffer(limits, 7 * op.rows)
    good = good and fits_loops(limits, lists.groups, 1 + halvings)
    good = good and fits_loops(limits, max(most, op.num_class))
    if not good:
        return []
    count = sum(t is not None for t in problem.inputs)
    inputs = (Layout.LINEAR,) * len(problem.inputs)
    return [Candidate("sorted", inputs, (Layout.LINEAR,), work.emit, (7 + count) * DISPATCH_COST)]


@dataclass(frozen=True)
class _Work:
    """``used``: classes of an image that have lists. ``keep``: boxes of an image that stay."""

    op: ImageDetections
    lists: BoxLists
    images: int
    used: int
    keep: int

    def emit(self, emitter: Emitter) -> None:
        op, lists = self.op, self.lists
        scores, rows = lists.new_scores(emitter), lists.new_rows(emitter)
        self._decode(emitter, rows)
        push: list[int | float] = [self.images, self.used, lists.entries, lists.stride]
        push += [op.num_class, op.background, float(np.float32(op.confidence_threshold))]
        over_lanes(
            emitter,
            "image_scores",
            [read1(emitter.input(1)), write(scores)],
            lists.groups * lists.entries,
            push,
            {10: int(op.best_class)},
        )
        ordered, kept = lists.choose(emitter, scores, rows)
        self._list(emitter, ordered, kept)

    def _decode(self, emitter: Emitter, rows: Ref) -> None:
        op, lists = self.op, self.lists
        location, priors = emitter.input(0), emitter.input(2)
        types = emitter.problem.inputs
        refined = len(types) > 3 and types[3] is not None
        assert types[2] is not None
        count = self.images * op.lists * lists.entries
        over_lanes(
            emitter,
            "image_decode",
            [
                read4(location),
                read4(priors),
                read4(emitter.input(3) if refined else location),
                write(rows),
            ],
            count,
            [self.images, op.lists, lists.entries, int(types[2].dims[0] > 1)],
            {10: int(op.corners), 11: int(op.encoded), 12: int(refined), 13: int(op.clip_before)},
        )

    def _list(self, emitter: Emitter, ordered: Ref, kept: Ref) -> None:
        op, most = self.op, self.lists.most
        count = self.lists.groups * most
        places = emitter.scratch("places", count, dtype=DType.INT32)
        push = [self.images, self.used, most, self.keep]
        over_lanes(
            emitter,
            "image_places",
            [read4(ordered), read1(kept), write(places)],
            count,
            push,
            {10: int(op.best_class)},
        )
        over_lanes(
            emitter,
            "image_rows",
            [read4(ordered), read1(kept), read1(places), write(emitter.output())],
            op.rows,
            [*push, op.rows],
            {10: int(op.best_class), 11: int(op.clip_after)},
        )
