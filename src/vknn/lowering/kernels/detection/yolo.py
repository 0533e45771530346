"""YoloDetection: boxes decoded, sorted and suppressed on the device."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.detection.box_lists import DETECTION, BoxLists, over_lanes
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops
from vknn.ops.detection.yolo import YoloDetection


@lowers(YoloDetection)
def yolo_detection(problem: Problem) -> Sequence[Candidate]:
    """A decoding dispatch for each map, then sorting and suppression.

    Writes the number of rows to the buffer behind the outputs.
    """
    op = problem.op
    assert isinstance(op, YoloDetection)
    maps = tuple(t for t in problem.inputs if t is not None)
    boxes = problem.outputs[0].dims[1]
    lists = BoxLists(1, boxes, boxes, boxes, op.nms_threshold)
    softmax = (ceil_div(op.num_class, 4), 8) if op.softmax else ()
    if not lists.fits(problem.limits) or not fits_loops(problem.limits, op.num_class, *softmax):
        return []
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        emit = functools.partial(_emit, op=op, maps=maps, lists=lists, layout=layout)
        cost = (5 + len(maps)) * problem.machine.dispatch
        name = f"sorted_{layout.value}"
        found.append(Candidate(name, (layout,) * len(maps), (Layout.LINEAR,), emit, cost))
    return found


def _emit(
    emitter: Emitter,
    op: YoloDetection,
    maps: tuple[TensorType, ...],
    lists: BoxLists,
    layout: Layout,
) -> None:
    scores, rows = lists.new_scores(emitter), lists.new_rows(emitter)
    first = 0
    for number, map_ in enumerate(maps):
        height, width = map_.dims[2:]
        _decode(emitter, op, (number, first, height, width), layout, (scores, rows))
        first += op.num_box * height * width
    lists.select(emitter, scores, rows, [(DETECTION, emitter.output(0), emitter.output(1))])


def _decode(
    emitter: Emitter,
    op: YoloDetection,
    place: tuple[int, int, int, int],
    layout: Layout,
    scratch: tuple[Ref, Ref],
) -> None:
    """Boxes of one map. ``place``: its number, its first box among all, its height and width."""
    number, first, height, width = place
    scores, rows = scratch
    anchors = _anchors(op, number, width, height)
    key = f"anchors {hashlib.sha256(anchors.tobytes()).hexdigest()[:16]}"
    table = emitter.weight(key, lambda: anchors, single=True)
    over_lanes(
        emitter,
        "yolo_decode",
        [read1(emitter.input(number)), read1(table), write(scores), write(rows)],
        op.num_box * height * width,
        {
            "boxes": op.num_box,
            "classes": op.num_class,
            "width": width,
            "height": height,
            "first": first,
            "threshold": float(np.float32(op.confidence_threshold)),
        },
        {"C4": int(layout is Layout.C4), "SOFTMAX": int(op.softmax)},
    )


def _anchors(op: YoloDetection, number: int, width: int, height: int) -> np.ndarray:
    """[num_box, 4]: width and height of each box's anchor, those of the net."""
    picked = np.asarray(op.mask[number * op.num_box :][: op.num_box], np.intp)
    sizes = np.asarray(op.biases, np.float32).reshape(-1)
    scale = np.float32(op.anchors_scale[number])
    net = [np.float32(int(scale * np.float32(s))) for s in (width, height)]
    columns = [sizes[2 * picked], sizes[2 * picked + 1]]
    columns += [np.full(op.num_box, side, np.float32) for side in net]
    return np.stack(columns, axis=1, dtype=np.float32)
