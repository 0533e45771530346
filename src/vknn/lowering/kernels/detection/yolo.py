"""Detection: boxes decoded, sorted and suppressed on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.detection.box_lists import DETECTION, BoxLists, over_lanes
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, write
from vknn.lowering.kit.layouts import Layout
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
        emit = _Emit(op, maps, lists, layout)
        cost = (5 + len(maps)) * DISPATCH_COST
        name = f"sorted_{layout.value}"
        found.append(Candidate(name, (layout,) * len(maps), (Layout.LINEAR,), emit, cost))
    return found


@dataclass(frozen=True)
class _Emit:
    op: YoloDetection
    maps: tuple[TensorType, ...]
    lists: BoxLists
    layout: Layout

    def __call__(self, emitter: Emitter) -> None:
        scores, rows = self.lists.new_scores(emitter), self.lists.new_rows(emitter)
        first = 0
        for number, map_ in enumerate(self.maps):
            self._decode(emitter, number, first, scores, rows)
            first += self.op.num_box * map_.dims[2] * map_.dims[3]
        results = [(DETECTION, emitter.output(0), emitter.output(1))]
        self.lists.select(emitter, scores, rows, results)

    def _decode(self, emitter: Emitter, number: int, first: int, scores: Ref, rows: Ref) -> None:
        op = self.op
        height, width = self.maps[number].dims[2:]
        anchors = self._anchors(number, width, height)
        key = f"anchors {hashlib.sha256(anchors.tobytes()).hexdigest()[:16]}"
        bindings = [
            read1(emitter.input(number)),
            read1(emitter.weight(key, lambda: anchors, single=True)),
            write(scores),
            write(rows),
        ]
        push: list[int | float] = [op.num_box, op.num_class, width, height, first]
        push.append(float(np.float32(op.confidence_threshold)))
        spec = {10: int(self.layout is Layout.C4), 11: int(op.softmax)}
        over_lanes(emitter, "yolo_decode", bindings, op.num_box * height * width, push, spec)

    def _anchors(self, number: int, width: int, height: int) -> np.ndarray:
        """[num_box, 4]: width and height of each box's anchor, those of the net."""
        op = self.op
        picked = np.asarray(op.mask[number * op.num_box :][: op.num_box], np.intp)
        sizes = np.asarray(op.biases, np.float32).reshape(-1)
        scale = np.float32(op.anchors_scale[number])
        net = [np.float32(int(scale * np.float32(s))) for s in (width, height)]
        columns = [sizes[2 * picked], sizes[2 * picked + 1]]
        columns += [np.full(op.num_box, side, np.float32) for side in net]
        return np.stack(columns, axis=1, dtype=np.float32)
