"""ImageDetections: boxes decoded once, each class of each image a list of its own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.detection.box_lists import BoxLists, over_lanes
from vknn.lowering.kit.candidate import Candidate
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
    emit = functools.partial(_emit, op=op, sizes=_Sizes(lists, images, used, keep))
    halvings = most.bit_length() + 1
    good = most > 0 and keep > 0 and lists.fits(limits) and fits_buffer(limits, 7 * op.rows)
    good = good and fits_loops(limits, lists.groups, 1 + halvings)
    good = good and fits_loops(limits, max(most, op.num_class))
    if not good:
        return []
    count = sum(t is not None for t in problem.inputs)
    inputs = (Layout.LINEAR,) * len(problem.inputs)
    return [
        Candidate("sorted", inputs, (Layout.LINEAR,), emit, (7 + count) * problem.machine.dispatch)
    ]


@dataclass(frozen=True)
class _Sizes:
    """``used``: classes of an image that have lists. ``keep``: boxes of an image that stay."""

    lists: BoxLists
    images: int
    used: int
    keep: int


def _emit(emitter: Emitter, op: ImageDetections, sizes: _Sizes) -> None:
    lists = sizes.lists
    scores, rows = lists.new_scores(emitter), lists.new_rows(emitter)
    _decode(emitter, op, sizes, rows)
    over_lanes(
        emitter,
        "image_scores",
        [read1(emitter.input(1)), write(scores)],
        lists.groups * lists.entries,
        {
            "images": sizes.images,
            "used": sizes.used,
            "count": lists.entries,
            "stride": lists.stride,
            "classes": op.num_class,
            "background": op.background,
            "threshold": float(np.float32(op.confidence_threshold)),
        },
        {"BEST": int(op.best_class)},
    )
    ordered, kept = lists.choose(emitter, scores, rows)
    _list(emitter, op, sizes, ordered, kept)


def _decode(emitter: Emitter, op: ImageDetections, sizes: _Sizes, rows: Ref) -> None:
    location, priors, types = emitter.input(0), emitter.input(2), emitter.problem.inputs
    refined = len(types) > 3 and types[3] is not None
    assert types[2] is not None
    over_lanes(
        emitter,
        "image_decode",
        [
            read4(location),
            read4(priors),
            read4(emitter.input(3) if refined else location),
            write(rows),
        ],
        sizes.images * op.lists * sizes.lists.entries,
        {
            "images": sizes.images,
            "lists": op.lists,
            "count": sizes.lists.entries,
            "own_priors": int(types[2].dims[0] > 1),
            "width": op.refined_size[0],
            "height": op.refined_size[1],
        },
        {
            "CORNERS": int(op.corners),
            "ENCODED": int(op.encoded),
            "REFINED": int(refined),
            "CLIPPED": int(op.clip_before),
        },
    )


def _list(emitter: Emitter, op: ImageDetections, sizes: _Sizes, ordered: Ref, kept: Ref) -> None:
    most = sizes.lists.most
    count = sizes.lists.groups * most
    places = emitter.scratch("places", count, dtype=DType.INT32)
    push = {"images": sizes.images, "classes": sizes.used, "most": most, "limit": sizes.keep}
    labelled = {"LABELLED": int(op.best_class)}
    bindings = [read4(ordered), read1(kept), write(places)]
    over_lanes(emitter, "image_places", bindings, count, push, labelled)
    over_lanes(
        emitter,
        "image_rows",
        [read4(ordered), read1(kept), read1(places), write(emitter.output())],
        op.rows,
        push | {"rows": op.rows},
        labelled | {"CLIPPED": int(op.clip_after)},
    )
