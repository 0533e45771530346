"""Region proposals of several images: anchors decoded, sorted and suppressed on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.detection.box_lists import BoxLists, over_lanes
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.detection.image_proposals import ImageProposals


@lowers(ImageProposals)
def image_proposals(problem: Problem) -> Sequence[Candidate]:
    """A lane for each anchor at each place, then sorting and suppression, an image a list."""
    op, scores, info = problem.op, problem.inputs[0], problem.inputs[2]
    assert isinstance(op, ImageProposals)
    assert scores is not None
    assert info is not None
    images, _, height, width = scores.dims
    boxes, most = len(op.anchors) * height * width, op.looked_at(scores)
    limit = op.post_nms_top_n
    if min(images, most, limit) < 1:
        return []
    lists = BoxLists(
        images,
        boxes,
        most,
        limit,
        op.nms_threshold,
        extra=op.extra,
        products=op.drop_small,
        last_first=op.drop_small,
        heap=not op.drop_small,
    )
    if not lists.fits(problem.limits) or not fits_buffer(problem.limits, 5 * images * limit):
        return []
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        emit = _Emit(op, lists, (images, height, width), info.dims[0] - 1, layout)
        inputs, outputs = (layout, layout, Layout.LINEAR), (Layout.LINEAR,) * 2
        name = f"sorted_{layout.value}"
        found.append(Candidate(name, inputs, outputs, emit, 9 * DISPATCH_COST))
    return found


@dataclass(frozen=True)
class _Emit:
    """``size``: images, height and width of the maps. ``last_scale``: where the last scale is."""

    op: ImageProposals
    lists: BoxLists
    size: tuple[int, int, int]
    last_scale: int
    layout: Layout

    def __call__(self, emitter: Emitter) -> None:
        rows, listed = self.lists.new_rows(emitter), self.lists.new_scores(emitter)
        self._decode(emitter, rows)
        self._score(emitter, rows, listed)
        ordered, kept = self.lists.choose(emitter, listed, rows)
        op, limit = self.op, self.op.post_nms_top_n
        spec = {11: int(op.swapped), 12: int(op.clip_after), 13: int(op.normalize)}
        for form in (0, 1):
            over_lanes(
                emitter,
                "anchor_rows",
                [
                    read4(ordered),
                    read1(kept),
                    read1(emitter.input(2)),
                    write(emitter.output(form)),
                ],
                self.size[0] * limit,
                [self.size[0], self.lists.most, limit],
                {10: form, **spec, 14: int(not op.drop_small)},
            )

    @property
    def _count(self) -> int:
        return self.size[0] * self.lists.entries

    def _decode(self, emitter: Emitter, rows: Ref) -> None:
        op, (images, height, width) = self.op, self.size
        anchors = np.asarray(op.anchors, np.float32)
        key = f"anchors {hashlib.sha256(anchors.tobytes()).hexdigest()[:16]}"
        table = emitter.weight(key, lambda: anchors, single=True)
        numbers = (op.stride, op.extra, op.coordinate_scale, op.size_scale)
        over_lanes(
            emitter,
            "anchor_decode",
            [read1(emitter.input(1)), read1(emitter.input(2)), read1(table), write(rows)],
            self._count,
            [images, len(anchors), width, height, *(float(n) for n in numbers)],
            {
                10: int(self.layout is Layout.C4),
                11: int(op.swapped),
                12: int(op.clip_anchors),
                13: int(op.clip_before),
                14: int(op.drop_small),
            },
        )

    def _score(self, emitter: Emitter, rows: Ref, listed: Ref) -> None:
        op, (images, height, width) = self.op, self.size
        push: list[int | float] = [images, len(op.anchors), width, height, self.lists.stride]
        push += [self.last_scale, float(op.min_size), float(op.extra)]
        over_lanes(
            emitter,
            "anchor_scores",
            [read1(emitter.input(0)), read1(emitter.input(2)), read4(rows), write(listed)],
            self._count,
            push,
            {10: int(self.layout is Layout.C4), 11: int(op.drop_small)},
        )
