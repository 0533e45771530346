"""Detection: boxes decoded, sorted and suppressed on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.emitter import Bound, Emitter, Ref, ceil_div, read1, read4, update, write
from vknn.lowering.grids import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.lowering.layouts import Layout
from vknn.lowering.registry import DISPATCH_COST, Candidate, Problem, lowers
from vknn.ops.detection import YoloDetection

#: The bits of -1.0f, the score that ends a list of boxes.
MINUS_ONE = -0x40800000

#: As in suppress.comp: boxes that a lane compares in one round.
AT_ONCE = 4


@lowers(YoloDetection)
def yolo_detection(problem: Problem) -> Sequence[Candidate]:
    """A decoding dispatch for each map, one that sorts, one that suppresses.

    Writes the number of rows to the buffer behind the outputs.
    """
    op = problem.op
    assert isinstance(op, YoloDetection)
    maps = tuple(t for t in problem.inputs if t is not None)
    boxes = problem.outputs[0].dims[1]
    if not fits_loops(problem.limits, max(ceil_div(boxes, 4), op.num_class)):
        return []
    groups = ceil_div(boxes, lane_count(problem.limits))
    if not fits_buffer(problem.limits, 8 * boxes) or not fits(groups, problem.limits):
        return []
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        emit = _Emit(op, maps, boxes, layout)
        cost = (4 + len(maps)) * DISPATCH_COST
        name = f"sorted_{layout.value}"
        found.append(Candidate(name, (layout,) * len(maps), (Layout.LINEAR,), emit, cost))
    return found


@dataclass(frozen=True)
class _Emit:
    op: YoloDetection
    maps: tuple[TensorType, ...]
    boxes: int
    layout: Layout

    def __call__(self, emitter: Emitter) -> None:
        scores = emitter.scratch("scores", self.boxes)
        rows = emitter.scratch("rows", 8 * self.boxes)
        first = 0
        for number, map_ in enumerate(self.maps):
            self._decode(emitter, number, first, scores, rows)
            first += self.op.num_box * map_.dims[2] * map_.dims[3]
        ordered = emitter.scratch("sorted", 8 * self.boxes)
        emitter.fill(ordered, MINUS_ONE)
        self._over_boxes(
            emitter, "rank", [read4(scores), read4(rows), write(ordered)], self.boxes, [self.boxes]
        )
        self._suppress(emitter, ordered)

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
        count = op.num_box * height * width
        push: list[int | float] = [op.num_box, op.num_class, width, height, first]
        push.append(float(np.float32(op.confidence_threshold)))
        self._over_boxes(emitter, "yolo_decode", bindings, count, push)

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

    def _over_boxes(
        self,
        emitter: Emitter,
        kernel: str,
        bindings: Sequence[Bound],
        count: int,
        push: Sequence[int | float],
    ) -> None:
        """A dispatch with a lane for each of ``count`` boxes."""
        limits = emitter.problem.limits
        lanes = lane_count(limits)
        emitter.dispatch(
            f"detection/{kernel}",
            bindings,
            groups=spread(ceil_div(count, lanes), limits),
            local=(lanes, 1, 1),
            push=push,
            spec={10: int(self.layout is Layout.C4)} if kernel == "yolo_decode" else None,
            label=f"YoloDetection {kernel}",
        )

    def _suppress(self, emitter: Emitter, ordered: Ref) -> None:
        limits = emitter.problem.limits
        lanes = min(128, limits.max_group_invocations)
        gone = emitter.scratch("gone", self.boxes, dtype=DType.INT32)
        emitter.fill(gone)
        emitter.fill(emitter.output(1))
        bindings = [read4(ordered), update(gone)]
        bindings += [write(emitter.output(0)), update(emitter.output(1))]
        rounds = 1 + ceil_div(self.boxes, lanes * AT_ONCE)
        chunk = max(1, limits.max_loop_rounds // 2 // rounds)
        for first in range(0, self.boxes, chunk):
            push = [self.boxes, first, min(first + chunk, self.boxes)]
            emitter.dispatch(
                "detection/suppress",
                bindings,
                groups=(1, 1, 1),
                local=(lanes, 1, 1),
                push=[*push, float(np.float32(self.op.nms_threshold))],
                label="YoloDetection suppress",
            )
