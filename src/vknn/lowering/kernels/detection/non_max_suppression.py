"""NonMaxSuppression: the best box is found and its neighbours removed, again and again."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, rounds, spread
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.plan import DeviceLimits

#: Lanes of a class, at the most, and bytes of shared memory of each.
_LANES, _SHARED_BYTES = 128, 8
#: Dispatches that a long list may be cut into.
_MOST_PASSES = 256
_LOWEST = float(np.finfo(np.float32).min)


@lowers(NonMaxSuppression)
def non_max_suppression(problem: Problem) -> Sequence[Candidate]:
    """A workgroup for each class of each image."""
    boxes, scores = problem.inputs
    op, limits = problem.op, problem.limits
    assert boxes is not None and scores is not None and isinstance(op, NonMaxSuppression)
    count = boxes.dims[1]
    groups, most = scores.dims[0] * scores.dims[1], min(op.max_output, count)
    if 0 in (groups, most):
        return []
    lanes = _lanes(limits)
    at_once = _at_once(count, lanes, limits)
    room = groups * (1 + 2 * most)
    small = fits_buffer(limits, max(room, groups * count)) and fits(groups, limits)
    if at_once < 1 or ceil_div(most, at_once) > _MOST_PASSES or not small:
        return []
    emit = functools.partial(_emit, op=op, groups=groups, count=count, most=most)
    machine = problem.machine
    cost = 2 * machine.dispatch + groups * most * (1.0 + ceil_div(count, lanes) * 24 * machine.byte)
    return [Candidate("greedy", (Layout.LINEAR,) * 2, (Layout.LINEAR,) * 3, emit, cost)]


def _at_once(count: int, lanes: int, limits: DeviceLimits) -> int:
    """Boxes that a dispatch may find of a list of ``count``."""
    each = rounds(ceil_div(count, lanes)) + rounds(lanes.bit_length() - 1) + 1
    return (limits.max_loop_rounds - 1 - rounds(ceil_div(count, lanes))) // each


def _emit(emitter: Emitter, op: NonMaxSuppression, groups: int, count: int, most: int) -> None:
    limits = emitter.problem.limits
    lanes = _lanes(limits)
    at_once = _at_once(count, lanes, limits)
    left = emitter.scratch("left", groups * count)
    found = emitter.scratch("found", groups * (1 + 2 * most), dtype=DType.INT32)
    emitter.fill(found)
    for first in range(0, most, at_once):
        _find(emitter, op, left, found, (first, min(first + at_once, most), most), lanes)
    outputs = [write(emitter.output(i)) for i in range(3)]
    emitter.dispatch_items(
        "detection/greedy_rows",
        [read1(found), *outputs],
        grid(limits, groups * op.max_output),
        push={"count": groups * op.max_output, "width": op.max_output, "most": most},
    )


def _lanes(limits: DeviceLimits) -> int:
    """A power of two that the device has room for."""
    most = min(_LANES, limits.max_group_size[0], limits.max_group_invocations)
    most = min(most, limits.shared_memory // _SHARED_BYTES)
    return 1 << (most.bit_length() - 1)


def _find(
    emitter: Emitter,
    op: NonMaxSuppression,
    left: Ref,
    found: Ref,
    numbers: tuple[int, int, int],
    lanes: int,
) -> None:
    """Boxes number first to last - 1 of at most ``most``."""
    first, last, most = numbers
    boxes, scores = (t for t in emitter.problem.inputs if t is not None)
    groups = scores.dims[0] * scores.dims[1]
    decay = -0.5 / np.float32(op.soft_sigma) if op.soft_sigma > 0 else 0.0
    threshold = max(float(np.float32(op.score_threshold)), _LOWEST)
    emitter.dispatch(
        "detection/greedy",
        [read4(emitter.input(0)), read1(emitter.input(1)), update(left), update(found)],
        groups=spread(groups, emitter.problem.limits),
        local=(lanes, 1, 1),
        push={
            "groups": groups,
            "classes": scores.dims[1],
            "count": boxes.dims[1],
            "most": most,
            "first": first,
            "last": last,
            "iou": float(np.float32(op.iou_threshold)),
            "score": threshold,
            "decay": float(decay),
        },
        spec={
            "LANES": lanes,
            "SOFT": int(op.soft_sigma > 0),
            "IOU_INCLUSIVE": int(op.iou_inclusive),
            "SCORE_INCLUSIVE": int(op.score_inclusive),
        },
    )
