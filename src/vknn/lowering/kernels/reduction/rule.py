"""Reductions over any axes: one dispatch, or two where there are few long lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType, Op, TensorType
from vknn.lowering.kernels.reduction.reduction_axes import Axis, Lines, lines_of
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import PLAIN, Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, lane_count
from vknn.ops.reduction import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
    normal_axes,
)
from vknn.plan import DeviceLimits

_JOIN, _TERM, _FINISH, _SINGLE = range(16, 20)
_SUM, _PRODUCT, _MAXIMUM, _MINIMUM = range(4)
_PLAIN, _ABSOLUTE, _SQUARE, _EXPONENTIAL = range(4)
_AS_IS, _SCALED, _ROOT, _LOGARITHM, _DIVIDED = range(5)
#: Op -> how terms are joined, what a term is, what is done at the end (shaders/reduction).
KINDS: dict[type[Op], tuple[int, int, int]] = {
    ReduceSum: (_SUM, _PLAIN, _AS_IS),
    ReduceMean: (_SUM, _PLAIN, _SCALED),
    ReduceMax: (_MAXIMUM, _PLAIN, _AS_IS),
    ReduceMin: (_MINIMUM, _PLAIN, _AS_IS),
    ReduceProd: (_PRODUCT, _PLAIN, _AS_IS),
    ReduceSumSquare: (_SUM, _SQUARE, _AS_IS),
    ReduceL1: (_SUM, _ABSOLUTE, _AS_IS),
    ReduceL2: (_SUM, _SQUARE, _ROOT),
    ReduceLogSum: (_SUM, _PLAIN, _LOGARITHM),
    ReduceLogSumExp: (_SUM, _EXPONENTIAL, _LOGARITHM),
}
#: Estimated microseconds that a lane waits for an item of a line.
LATENCY = 0.5
#: Workgroups that keep a device busy, and items that are worth a workgroup of their own.
BUSY, WORTHWHILE = 256, 256


def lane_cost(lines: Lines, shape: RowShape, limits: DeviceLimits) -> float:
    """What it costs that a line is worked through by its own lanes alone."""
    if limits.kind != "cpu":
        return LATENCY * lines.count / shape.lanes
    groups = ceil_div(lines.lines, shape.rows)
    return 16 * lines.lines * lines.count * BYTE_COST * (max(0, 8 - groups) / max(1, groups))


@dataclass(frozen=True)
class Parts:
    """A line cut into ``parts`` of ``chunk`` items."""

    parts: int
    chunk: int


def parts_of(lines: Lines, limits: DeviceLimits) -> Parts | None:
    """Parts enough to keep a device busy; None where there is no need or no use."""
    wanted = min(BUSY // max(1, lines.lines), lines.count // WORTHWHILE)
    if wanted < 2:
        return None
    chunk = ceil_div(lines.count, wanted)
    return Parts(ceil_div(lines.count, chunk), chunk)


@lowers(*KINDS)
def reductions(problem: Problem) -> Sequence[Candidate]:
    """Every layout, at once or in two stages."""
    (x,), op = problem.inputs, problem.op
    assert x is not None and isinstance(op, Reduction)
    axes = normal_axes(op, op.axes, x.rank)
    found = []
    for source in PLAIN:
        lines = lines_of(x, axes, source)
        target = _target(problem, axes, source)
        if lines is None or target is None:
            continue
        in_order = isinstance(op, ReduceMean) and op.in_order
        if in_order and lines.across:
            continue  # a vec4's lanes are added up side by side
        kind, scale = KINDS[type(op)], _scale(x, axes)
        if in_order:
            kind, scale = (_SUM, _PLAIN, _DIVIDED), x.size / problem.outputs[0].size
        emit = _Emit(lines, kind, scale, target, in_order)
        found += _candidates(problem, emit, source)
    return found


def _scale(x: TensorType, axes: Sequence[int]) -> float:
    return 1.0 / max(1, math.prod(x.dims[a] for a in axes))


def _target(problem: Problem, axes: Sequence[int], source: Layout) -> Layout | None:
    """The layout that the result comes in; None where it would be neither."""
    if source is Layout.LINEAR:
        return Layout.LINEAR
    op = problem.op
    assert isinstance(op, Reduction)
    if 1 in axes:  # a scalar for each line, in order
        return Layout.C4 if op.keepdims and problem.outputs[0].rank >= 2 else Layout.LINEAR
    # The channels are still axis 1 where the first axis has stayed.
    return Layout.C4 if op.keepdims or 0 not in axes else None


def _candidates(problem: Problem, emit: _Emit, source: Layout) -> list[Candidate]:
    (x,), limits = problem.inputs, problem.limits
    assert x is not None
    lines, found = emit.lines, []
    work = storage_bytes(x, source) * BYTE_COST + 4 * x.size * FLOP_COST
    shape = emit.shape(limits)
    if shape.fits(lines.lines, lines.count, limits):
        cost = DISPATCH_COST + work + lane_cost(lines, shape, limits)
        name = f"lines_{source.value}"
        found.append(Candidate(name, (source,), (emit.target,), emit.whole, cost))
    parts = None if emit.in_order else parts_of(lines, limits)
    if parts is None or emit.kind[1] == _EXPONENTIAL:
        return found
    split = _Split(emit, parts)
    if split.fits(limits):
        cost = 2 * DISPATCH_COST + work
        name = f"parts_{source.value}"
        found.append(Candidate(name, (source,), (emit.target,), split, cost))
    return found


@dataclass(frozen=True)
class _Emit:
    lines: Lines
    kind: tuple[int, int, int]
    scale: float
    target: Layout
    in_order: bool = False

    def shape(self, limits: DeviceLimits) -> RowShape:
        """The workgroups; in order a line is one lane's."""
        shape = self.lines.shape(limits)
        return RowShape(1, shape.lanes * shape.rows) if self.in_order else shape

    @property
    def in_fours(self) -> bool:
        """True where the results are vec4s: of four lines, or of a tensor in C4."""
        return not self.lines.across or self.target is Layout.C4

    def spec(self) -> dict[int, int]:
        join, term, finish = self.kind
        single = self.target is Layout.C4 and self.lines.across
        return {_JOIN: join, _TERM: term, _FINISH: finish, _SINGLE: int(single)}

    def whole(self, emitter: Emitter) -> None:
        limits, x = emitter.problem.limits, emitter.input(0)
        shape = self.shape(limits)
        emitter.dispatch(
            "reduction/reduce",
            [read4(x) if self.lines.wide else read1(x), write(emitter.output())],
            groups=shape.groups(self.lines.lines, limits),
            local=shape.local,
            push=[*self.lines.push(), 1, self.lines.count, self.scale],
            spec=self.lines.spec(shape) | self.spec(),
            defines=_defines(x.is_float, self.lines.wide, self.in_fours, 0),
            access=None if x.is_float else "storage",
            flops=2 * self.lines.lines * self.lines.count * 4,
        )


@dataclass(frozen=True)
class _Split:
    """Two dispatches: a vec4 of each part of a line, and the result of those."""

    emit: _Emit
    parts: Parts

    def first(self, limits: DeviceLimits) -> RowShape:
        return row_shape(self.emit.lines.lines * self.parts.parts, self.parts.chunk, limits)

    def second(self) -> Lines:
        """The lines of the parts: side by side and across as the whole ones."""
        lines = self.emit.lines
        parts = self.parts.parts
        kept = (Axis(lines.lines, parts),) if lines.lines > 1 else ()
        block = None
        if lines.block is not None and not lines.across:
            block = (parts * lines.within, *lines.block[1:])
        return Lines(kept, (Axis(parts, 1),), True, lines.across, block)

    def fits(self, limits: DeviceLimits) -> bool:
        count = self.emit.lines.lines * self.parts.parts
        second = self.second()
        return (
            fits_buffer(limits, 4 * count)
            and fits(ceil_div(count, lane_count(limits)), limits)
            and self.first(limits).fits(count, self.parts.chunk, limits)
            and second.shape(limits).fits(second.lines, second.count, limits)
        )

    def __call__(self, emitter: Emitter) -> None:
        limits, x, lines = emitter.problem.limits, emitter.input(0), self.emit.lines
        count = lines.lines * self.parts.parts
        dtype = DType.FLOAT32 if x.is_float else DType.INT32
        middle = emitter.scratch("parts", 4 * count, dtype=dtype)
        push = lines.push()
        push[0] = count
        access = None if x.is_float else "storage"
        shape = self.first(limits)
        emitter.dispatch(
            "reduction/reduce",
            [read4(x) if lines.wide else read1(x), write(middle)],
            groups=shape.groups(count, limits),
            local=shape.local,
            push=[*push, self.parts.parts, self.parts.chunk, self.emit.scale],
            spec=lines.spec(shape) | self.emit.spec(),
            defines=_defines(x.is_float, lines.wide, True, 1),
            access=access,
            flops=8 * lines.lines * lines.count,
        )
        second = self.second()
        shape = second.shape(limits)
        emitter.dispatch(
            "reduction/reduce",
            [read4(middle), write(emitter.output())],
            groups=shape.groups(second.lines, limits),
            local=shape.local,
            push=[*second.push(), 1, second.count, self.emit.scale],
            spec=second.spec(shape) | self.emit.spec(),
            defines=_defines(x.is_float, True, self.emit.in_fours, 2),
            access="storage",
        )


def _defines(is_float: bool, wide: bool, in_fours: bool, stage: int) -> dict[str, int | str]:
    return {
        "ELEM": int(not is_float),
        "WIDE": int(wide),
        "OUT4": int(in_fours),
        "STAGE": stage,
    }
