"""Running sums: the lanes of a line take a run each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kernels.indexing.topk import Strided, strided
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import PLAIN, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, lane_count
from vknn.ops.reduction import CumSum
from vknn.plan import DeviceLimits

#: Estimated microseconds of a round of a lane, on a GPU.
_LATENCY = 0.5
#: Elements of a run that are worth a lane of their own.
_RUN = 16


@lowers(CumSum)
def running_sums(problem: Problem) -> Sequence[Candidate]:
    """Lines in LINEAR, and in C4 along other axes than the channels."""
    op, x, limits = problem.op, problem.inputs[0], problem.limits
    assert isinstance(op, CumSum) and x is not None
    found = []
    for layout in PLAIN:
        lines = strided(x, op.axis % x.rank, layout)
        if lines is None:
            continue
        shape = _shape(lines, limits)
        if not _fits(lines, shape, limits):
            continue
        emit = _Emit(op, x, lines, shape)
        cost = DISPATCH_COST + 2 * storage_bytes(x, layout) * BYTE_COST
        if limits.kind != "cpu":
            cost += _LATENCY * (lines.count / shape.lanes + shape.lanes / 4)
        found.append(Candidate(f"runs_{layout.value}", (layout,), (layout,), emit, cost))
    return found


def _shape(lines: Strided, limits: DeviceLimits) -> RowShape:
    """One lane where there are many lines; otherwise as many as have work, and loops allow."""
    size = lane_count(limits)
    if lines.lines >= 16 * size and _fits(lines, RowShape(1, size), limits):
        return RowShape(1, size)
    most = min(limits.max_group_size[0], limits.max_group_invocations, limits.shared_memory // 16)
    lanes = 1
    while 2 * lanes <= most and _RUN * lanes < lines.count and lanes * lanes < 4 * lines.count:
        lanes *= 2
    return RowShape(lanes, max(1, size // lanes))


def _fits(lines: Strided, shape: RowShape, limits: DeviceLimits) -> bool:
    runs = ceil_div(lines.count, shape.lanes)
    loops = fits_loops(limits, 2 * runs + shape.lanes + 2)
    return loops and fits(ceil_div(lines.lines, shape.rows), limits)


@dataclass(frozen=True)
class _Emit:
    op: CumSum
    x: TensorType
    lines: Strided
    shape: RowShape

    def __call__(self, emitter: Emitter) -> None:
        x, lines, op = emitter.input(0), self.lines, self.op
        emitter.dispatch(
            "reduction/cumsum",
            [read4(x) if lines.wide else read1(x), write(emitter.output())],
            groups=self.shape.groups(lines.lines, emitter.problem.limits),
            local=self.shape.local,
            push=[lines.lines, lines.count, lines.inner, ceil_div(lines.count, self.shape.lanes)],
            spec={
                10: self.shape.lanes,
                11: self.shape.rows,
                12: int(op.exclusive),
                13: int(op.reverse),
            },
            defines={"WIDE": int(lines.wide), "ELEM": int(not x.is_float)},
            access=None if x.is_float else "storage",
            flops=2 * self.x.size,
        )
