"""PriorBox, and DetectionOutput of SSD: boxes decoded, sorted and suppressed class by class."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from vknn.lowering.kernels.detection.box_lists import DETECTION, BoxLists, over_lanes
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.detection.ssd import DetectionOutput, PriorBox

_NO_VARIANCES = (0.0, 0.0, 0.0, 0.0)


@lowers(PriorBox)
def prior_box(problem: Problem) -> Sequence[Candidate]:
    """A lane for each box."""
    (y,), op = problem.outputs, problem.op
    assert isinstance(op, PriorBox)
    if not fits_buffer(problem.limits, 2 * len(op.sizes)):
        return []
    emit = functools.partial(_emit_prior_box, op=op)
    machine = problem.machine
    cost = machine.dispatch + 4 * y.size * machine.byte
    return [Candidate("boxes", (), (Layout.LINEAR,), emit, cost)]


def _emit_prior_box(emitter: Emitter, op: PriorBox) -> None:
    rows, columns = op.feature
    count = rows * columns * len(op.sizes)
    sizes = np.asarray(op.sizes, np.float32)
    key = f"sizes {hashlib.sha256(sizes.tobytes()).hexdigest()[:16]}"
    emitter.dispatch_items(
        "detection/prior_box",
        [read1(emitter.weight(key, lambda: sizes, single=True)), write(emitter.output())],
        grid(emitter.problem.limits, count, item_rounds=rounds(4)),
        push={
            "count": count,
            "boxes": len(op.sizes),
            "columns": columns,
            **_by_axis("step", "yx", op.step),
            **_by_axis("first", "yx", op.first),
            **_by_axis("image", "hw", op.image),
            "variances": op.variances or _NO_VARIANCES,
        },
        spec={"CLIP": int(op.clip), "VARIANCES": int(op.variances is not None)},
    )


def _by_axis(stem: str, axes: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{stem}_{axis}": float(v) for axis, v in zip(axes, values, strict=True)}


@lowers(DetectionOutput)
def detection_output(problem: Problem) -> Sequence[Candidate]:
    """Boxes are decoded once, scores picked for each class; each class is a list of its own."""
    op = problem.op
    assert isinstance(op, DetectionOutput)
    boxes = op.boxes(*problem.inputs) or 0
    groups, most = len(op.classes), min(op.nms_top_k, boxes)
    skipped = op.background if op.background >= 0 else op.num_class
    lists = BoxLists(groups, boxes, most, op.keep_top_k, op.nms_threshold, True, skipped)
    if min(groups, most) < 1 or not lists.fits(problem.limits):
        return []
    emit = functools.partial(_emit_detection_output, op=op, lists=lists)
    return [
        Candidate(
            "sorted", (Layout.LINEAR,) * 3, (Layout.LINEAR,), emit, 5 * problem.machine.dispatch
        )
    ]


def _emit_detection_output(emitter: Emitter, op: DetectionOutput, lists: BoxLists) -> None:
    location, confidence, priors = (emitter.input(i) for i in range(3))
    scores, rows = lists.new_scores(emitter), lists.new_rows(emitter)
    over_lanes(
        emitter,
        "ssd_decode",
        [read4(location), read4(priors), write(rows)],
        lists.entries,
        {"count": lists.entries, "variances": op.variances or _NO_VARIANCES},
        {"OWN_VARIANCES": int(op.variances is None)},
    )
    over_lanes(
        emitter,
        "ssd_scores",
        [read1(confidence), write(scores)],
        lists.groups * lists.entries,
        {
            "groups": lists.groups,
            "count": lists.entries,
            "stride": lists.stride,
            "classes": op.num_class,
            "background": op.background,
            "threshold": float(np.float32(op.confidence_threshold)),
        },
        {"CLASS_MAJOR": int(op.class_major)},
    )
    lists.select(emitter, scores, rows, [(DETECTION, emitter.output(0), emitter.output(1))])
