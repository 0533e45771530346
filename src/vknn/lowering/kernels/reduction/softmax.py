"""Softmax and its logarithm: ops that reduce along one axis and keep it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import lane_count
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.plan import DeviceLimits

_LANES, _ROWS, _ACROSS, _TAIL, _LOGARITHM = range(10, 15)
#: Floating point operations of an element: two exponentials, a maximum, a sum, a division.
_FLOPS = 40
#: Estimated microseconds that a lane of a GPU waits for an element of a line.
_LATENCY = 1.0


@dataclass(frozen=True)
class _Lines:
    """``lines`` of ``count`` vec4s, ``inner`` apart (see shaders/reduction/softmax.comp)."""

    lines: int
    count: int
    inner: int
    wide: bool
    across: bool

    def shape(self, limits: DeviceLimits) -> RowShape:
        """How many lanes share a line."""
        alone = RowShape(1, lane_count(limits))
        single = limits.kind != "cpu" and self.inner > 1 and self.lines >= 4096
        if not self.across or (single and alone.fits(self.lines, self.count, limits)):
            return alone
        return row_shape(self.lines, self.count, limits)

    def fits(self, limits: DeviceLimits) -> bool:
        return self.shape(limits).fits(self.lines, self.count, limits)


@lowers(Softmax, LogSoftmax)
def softmax(problem: Problem) -> Sequence[Candidate]:
    """Rows of LINEAR tensors, channels of C4 tensors, and lines side by side in either."""
    (x,), op = problem.inputs, problem.op
    assert x is not None and isinstance(op, Softmax | LogSoftmax)
    axis = op.axis % x.rank
    found = []
    for layout in PLAIN:
        lines = _lines(x, axis, layout, problem.limits) if allows(x, layout) else None
        if lines is not None:
            found.append(_candidate(x, axis, layout, lines, problem.limits))
    return found


def _lines(x: TensorType, axis: int, layout: Layout, limits: DeviceLimits) -> _Lines | None:
    """The best way to see the lines; None where they are too many or too long for the device."""
    return next((lines for lines in _views(x, axis, layout) if lines.fits(limits)), None)


def _views(x: TensorType, axis: int, layout: Layout) -> list[_Lines]:
    dims = list(x.dims)
    size = dims[axis]
    if layout is Layout.C4:
        dims[1] = -(-dims[1] // 4)
    inner, outer = math.prod(dims[axis + 1 :]), math.prod(dims[:axis])
    if layout is Layout.C4:
        return [_Lines(outer * inner, dims[axis], inner, True, axis == 1)]
    if inner == 1:
        return [_Lines(outer, -(-size // 4), 1, size % 4 == 0, True)]
    # A line that four lanes of a vec4 do not share may be shared by many lanes of a workgroup.
    gathered = _Lines(outer * inner, -(-size // 4), inner, False, True)
    if inner % 4:
        return [gathered]
    return [_Lines(outer * inner // 4, size, inner // 4, True, False), gathered]


def _candidate(
    x: TensorType, axis: int, layout: Layout, what: _Lines, limits: DeviceLimits
) -> Candidate:
    shape = what.shape(limits)
    cost = DISPATCH_COST + 4 * storage_bytes(x, layout) * BYTE_COST + x.size * _FLOPS * FLOP_COST
    if limits.kind != "cpu":
        cost += _LATENCY * what.count / shape.lanes
    return Candidate(
        f"softmax_{layout.value}",
        (layout,),
        (layout,),
        _emit(x, axis, layout, what, shape),
        cost,
    )


def _emit(
    x: TensorType, axis: int, layout: Layout, what: _Lines, shape: RowShape
) -> Callable[[Emitter], None]:
    def emit(emitter: Emitter) -> None:
        channels, spatial = 1, 1
        if layout is Layout.C4:
            _, channels, *rest = x.dims
            spatial = math.prod(rest)
        source, target = emitter.input(0), emitter.output()
        emitter.dispatch(
            "reduction/softmax",
            [read4(source) if what.wide else read1(source), write(target)],
            groups=shape.groups(what.lines, emitter.problem.limits),
            local=shape.local,
            push=[
                *(what.lines, what.count, what.inner, x.dims[axis]),
                *(spatial, -(-channels // 4), channels),
            ],
            spec={
                _LANES: shape.lanes,
                _ROWS: shape.rows,
                _ACROSS: int(what.across),
                _TAIL: int(layout is Layout.C4 and channels % 4 != 0),
                _LOGARITHM: int(isinstance(emitter.problem.op, LogSoftmax)),
            },
            defines={"WIDE": int(what.wide)},
            flops=_FLOPS * x.size,
        )

    return emit
