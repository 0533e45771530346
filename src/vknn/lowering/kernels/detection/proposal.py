"""Proposal (region proposals): anchors decoded, sorted and suppressed on the device."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from vknn.lowering.kernels.detection.box_lists import BOX, SCORE, BoxLists, over_lanes
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.detection.proposal import Proposal


@lowers(Proposal)
def proposal(problem: Problem) -> Sequence[Candidate]:
    """A lane for each anchor at each place, then sorting and suppression."""
    op, scores = problem.op, problem.input(0)
    assert isinstance(op, Proposal)
    height, width = scores.dims[2:]
    boxes = len(op.anchors) * height * width
    limit = problem.outputs[0].dims[1]
    lists = BoxLists(1, boxes, op.looked_at(scores), limit, op.nms_threshold)
    if limit < 1 or not lists.fits(problem.limits):
        return []
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        inputs = (layout, layout, Layout.LINEAR)
        emit = functools.partial(_emit, op=op, lists=lists, size=(height, width), layout=layout)
        name = f"sorted_{layout.value}"
        outputs = (Layout.LINEAR, Layout.LINEAR)
        found.append(Candidate(name, inputs, outputs, emit, 6 * problem.machine.dispatch))
    return found


def _emit(
    emitter: Emitter, op: Proposal, lists: BoxLists, size: tuple[int, int], layout: Layout
) -> None:
    rows, listed = lists.new_rows(emitter), lists.new_scores(emitter)
    scores, deltas, info = (emitter.input(i) for i in range(3))
    anchors = np.asarray(op.anchors, np.float32)
    key = f"anchors {hashlib.sha256(anchors.tobytes()).hexdigest()[:16]}"
    table = emitter.weight(key, lambda: anchors, single=True)
    sizes = {"anchor_count": len(op.anchors), "width": size[1], "height": size[0]}
    spec = {"C4": int(layout is Layout.C4)}
    decoded = [read1(deltas), read1(info), read1(table), write(rows)]
    push: dict[str, int | float] = {**sizes, "stride": float(op.stride)}
    over_lanes(emitter, "proposal_decode", decoded, lists.entries, push, spec)
    picked = [read1(scores), read1(info), read4(rows), write(listed)]
    push = {**sizes, "min_size": float(op.min_size)}
    over_lanes(emitter, "proposal_scores", picked, lists.entries, push, spec)
    results = [(BOX, emitter.output(0), emitter.output(2))]
    results.append((SCORE, emitter.output(1), emitter.output(3)))
    lists.select(emitter, listed, rows, results)
