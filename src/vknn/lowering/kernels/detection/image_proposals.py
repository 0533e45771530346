"""ImageProposals: anchors decoded, sorted and suppressed on the device, an image a list."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.detection.box_lists import BoxLists, over_lanes
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.detection.image_proposals import ImageProposals


@lowers(ImageProposals)
def image_proposals(problem: Problem) -> Sequence[Candidate]:
    """A lane for each anchor at each place, then sorting and suppression, an image a list."""
    op, scores, info = problem.op, problem.input(0), problem.input(2)
    assert isinstance(op, ImageProposals)
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
    sizes = _Sizes(images, height, width, info.dims[0] - 1)
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        emit = functools.partial(_emit, op=op, lists=lists, sizes=sizes, layout=layout)
        inputs, outputs = (layout, layout, Layout.LINEAR), (Layout.LINEAR,) * 2
        name = f"sorted_{layout.value}"
        found.append(Candidate(name, inputs, outputs, emit, 9 * problem.machine.dispatch))
    return found


@dataclass(frozen=True)
class _Sizes:
    """Sizes of the maps. ``last_scale``: place of the last scale in an image's information."""

    images: int
    height: int
    width: int
    last_scale: int

    def maps(self, op: ImageProposals) -> dict[str, int]:
        """Push constants: images, anchors of a place, width and height."""
        return {
            "images": self.images,
            "anchor_count": len(op.anchors),
            "width": self.width,
            "height": self.height,
        }


def _emit(
    emitter: Emitter, op: ImageProposals, lists: BoxLists, sizes: _Sizes, layout: Layout
) -> None:
    rows, listed = lists.new_rows(emitter), lists.new_scores(emitter)
    _decode(emitter, op, lists, sizes, layout, rows)
    _score(emitter, op, lists, sizes, layout, (rows, listed))
    ordered, kept = lists.choose(emitter, listed, rows)
    limit = op.post_nms_top_n
    for form in (0, 1):
        info, y = emitter.input(2), emitter.output(form)
        over_lanes(
            emitter,
            "anchor_rows",
            [read4(ordered), read1(kept), read1(info), write(y)],
            sizes.images * limit,
            {"images": sizes.images, "most": lists.most, "limit": limit},
            {
                "FORM": form,
                "SWAPPED": int(op.swapped),
                "CLIPPED": int(op.clip_after),
                "NORMALIZED": int(op.normalize),
                "MARKED": int(not op.drop_small),
            },
        )


def _decode(
    emitter: Emitter,
    op: ImageProposals,
    lists: BoxLists,
    sizes: _Sizes,
    layout: Layout,
    rows: Ref,
) -> None:
    anchors = np.asarray(op.anchors, np.float32)
    key = f"anchors {hashlib.sha256(anchors.tobytes()).hexdigest()[:16]}"
    table = emitter.weight(key, lambda: anchors, single=True)
    over_lanes(
        emitter,
        "anchor_decode",
        [read1(emitter.input(1)), read1(emitter.input(2)), read1(table), write(rows)],
        sizes.images * lists.entries,
        {
            **sizes.maps(op),
            "stride": float(op.stride),
            "extra": float(op.extra),
            "coordinate_scale": float(op.coordinate_scale),
            "size_scale": float(op.size_scale),
        },
        {
            "C4": int(layout is Layout.C4),
            "SWAPPED": int(op.swapped),
            "CLIP_ANCHORS": int(op.clip_anchors),
            "CLIPPED": int(op.clip_before),
            "WHOLE": int(op.drop_small),
        },
    )


def _score(
    emitter: Emitter,
    op: ImageProposals,
    lists: BoxLists,
    sizes: _Sizes,
    layout: Layout,
    scratch: tuple[Ref, Ref],
) -> None:
    rows, listed = scratch
    over_lanes(
        emitter,
        "anchor_scores",
        [read1(emitter.input(0)), read1(emitter.input(2)), read4(rows), write(listed)],
        sizes.images * lists.entries,
        {
            **sizes.maps(op),
            "stride": lists.stride,
            "last_scale": sizes.last_scale,
            "min_size": float(op.min_size),
            "extra": float(op.extra),
        },
        {"C4": int(layout is Layout.C4), "DROPPED": int(op.drop_small)},
    )
