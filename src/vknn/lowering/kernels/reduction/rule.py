"""ReduceSum, ReduceMax and their kin over any axes: one dispatch, or two for few long rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vknn.graph import DType, Op, TensorType
from vknn.lowering.kernels.reduction.mean_in_order import mean_in_order
from vknn.lowering.kernels.reduction.parts import RowParts, parts_of, whole_row_cost
from vknn.lowering.kernels.reduction.reduction_axes import (
    ChannelBlocks,
    ReductionAxes,
    ReductionAxis,
    along_axes,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import PLAIN, Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_lanes
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

#: Values of JOIN, TERM and FINISH in shaders/reduction/reduce.comp.
_SUM, _PRODUCT, _MAXIMUM, _MINIMUM = range(4)
_PLAIN, _ABSOLUTE, _SQUARE, _EXPONENTIAL = range(4)
_AS_IS, _SCALED, _ROOT, _LOGARITHM = range(4)


@dataclass(frozen=True)
class Function:
    """A reduction: how terms are joined, what a term is of an element, what becomes of the sum."""

    join: int
    term: int
    finish: int


FUNCTIONS: dict[type[Op], Function] = {
    ReduceSum: Function(_SUM, _PLAIN, _AS_IS),
    ReduceMean: Function(_SUM, _PLAIN, _SCALED),
    ReduceMax: Function(_MAXIMUM, _PLAIN, _AS_IS),
    ReduceMin: Function(_MINIMUM, _PLAIN, _AS_IS),
    ReduceProd: Function(_PRODUCT, _PLAIN, _AS_IS),
    ReduceSumSquare: Function(_SUM, _SQUARE, _AS_IS),
    ReduceL1: Function(_SUM, _ABSOLUTE, _AS_IS),
    ReduceL2: Function(_SUM, _SQUARE, _ROOT),
    ReduceLogSum: Function(_SUM, _PLAIN, _LOGARITHM),
    ReduceLogSumExp: Function(_SUM, _EXPONENTIAL, _LOGARITHM),
}


@dataclass(frozen=True)
class _RowReduction:
    """A reduction of a tensor in one layout.

    ``factor``: 1 / elements of a row.
    """

    axes: ReductionAxes
    function: Function
    factor: float
    target: Layout

    @property
    def in_fours(self) -> bool:
        """True where the results are vec4s: of four rows, or of a tensor in C4."""
        return not self.axes.across or self.target is Layout.C4

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of what is done to a row."""
        return {
            "JOIN": self.function.join,
            "TERM": self.function.term,
            "FINISH": self.function.finish,
            "SINGLE": int(self.target is Layout.C4 and self.axes.across),
        }


@lowers(*FUNCTIONS)
def reductions(problem: Problem) -> Sequence[Candidate]:
    """Candidates: one or two stages, from every layout."""
    x, op = problem.input(0), problem.op
    assert isinstance(op, Reduction)
    dims = normal_axes(op, op.axes, x.rank)
    found: list[Candidate] = []
    for source in PLAIN:
        axes = along_axes(x, dims, source)
        target = _target(problem, dims, source)
        if axes is None or target is None:
            continue
        if isinstance(op, ReduceMean) and op.in_order:
            found += mean_in_order(problem, axes, source, target)
            continue
        reduction = _RowReduction(axes, FUNCTIONS[type(op)], _inverse(x, dims), target)
        found += _candidates(problem, reduction, source)
    return found


def _inverse(x: TensorType, axes: Sequence[int]) -> float:
    return 1.0 / max(1, math.prod(x.dims[a] for a in axes))


def _target(problem: Problem, axes: Sequence[int], source: Layout) -> Layout | None:
    """The layout that the result comes in; None where it would be neither."""
    if source is Layout.LINEAR:
        return Layout.LINEAR
    op = problem.op
    assert isinstance(op, Reduction)
    if 1 in axes:  # a scalar for each row, in order
        return Layout.C4 if op.keepdims and problem.outputs[0].rank >= 2 else Layout.LINEAR
    # The channels are still axis 1 where the first axis has stayed.
    return Layout.C4 if op.keepdims or 0 not in axes else None


def _candidates(problem: Problem, reduction: _RowReduction, source: Layout) -> list[Candidate]:
    x, limits = problem.input(0), problem.limits
    axes, found = reduction.axes, []
    machine = problem.machine
    work = storage_bytes(x, source) * machine.byte + 4 * x.size * machine.flop
    shape = axes.shape(limits)
    if shape.fits(axes.rows, axes.count, limits):
        cost = machine.dispatch + work + whole_row_cost(axes, shape, limits)
        emit = functools.partial(_emit_whole, reduction=reduction)
        found.append(Candidate(f"lines_{source.value}", (source,), (reduction.target,), emit, cost))
    parts = parts_of(axes, limits)
    if (
        parts is None
        or reduction.function.term == _EXPONENTIAL
        or not _parts_fit(reduction, parts, limits)
    ):
        return found
    emit = functools.partial(_emit_parts, reduction=reduction, parts=parts)
    cost = 2 * machine.dispatch + work
    found.append(Candidate(f"parts_{source.value}", (source,), (reduction.target,), emit, cost))
    return found


def _axes_of_parts(axes: ReductionAxes, parts: int) -> ReductionAxes:
    """The rows of the second stage: results of parts, side by side and across as the whole ones."""
    kept = (ReductionAxis(axes.rows, parts),) if axes.rows > 1 else ()
    channels = None
    if axes.channels is not None and not axes.across:
        old = axes.channels
        channels = ChannelBlocks(parts * old.rows, old.blocks, old.channels)
    return ReductionAxes(kept, (ReductionAxis(parts, 1),), True, axes.across, channels)


def _parts_fit(reduction: _RowReduction, parts: RowParts, limits: DeviceLimits) -> bool:
    count = reduction.axes.rows * parts.parts
    second = _axes_of_parts(reduction.axes, parts.parts)
    return (
        fits_buffer(limits, 4 * count)
        and fits_lanes(count, limits)
        and parts.shape(reduction.axes, limits).fits(count, parts.chunk, limits)
        and second.shape(limits).fits(second.rows, second.count, limits)
    )


def _emit_whole(emitter: Emitter, reduction: _RowReduction) -> None:
    axes, limits, x = reduction.axes, emitter.problem.limits, emitter.input(0)
    shape = axes.shape(limits)
    emitter.dispatch(
        "reduction/reduce",
        [axes.read(x), write(emitter.output())],
        groups=shape.groups(axes.rows, limits),
        local=shape.local,
        push={**axes.push(), **RowParts(1, axes.count).push(), "factor": reduction.factor},
        spec={**axes.spec(shape), **reduction.spec},
        defines=_defines(x, wide=axes.wide, in_fours=reduction.in_fours, stage=0),
        access=None if x.is_float else "storage",
        flops=8 * axes.rows * axes.count,
    )


def _emit_parts(emitter: Emitter, reduction: _RowReduction, parts: RowParts) -> None:
    """A vec4 of each part of a row, then the results of those."""
    dtype = DType.FLOAT32 if emitter.input(0).is_float else DType.INT32
    count = 4 * reduction.axes.rows * parts.parts
    middle = emitter.scratch("parts", count, dtype=dtype)
    _emit_first(emitter, reduction, parts, middle)
    _emit_second(emitter, reduction, parts, middle)


def _emit_first(emitter: Emitter, reduction: _RowReduction, parts: RowParts, middle: Ref) -> None:
    axes, limits, x = reduction.axes, emitter.problem.limits, emitter.input(0)
    shape, count = parts.shape(axes, limits), axes.rows * parts.parts
    emitter.dispatch(
        "reduction/reduce",
        [axes.read(x), write(middle)],
        groups=shape.groups(count, limits),
        local=shape.local,
        push={**axes.push(), "rows": count, **parts.push(), "factor": reduction.factor},
        spec={**axes.spec(shape), **reduction.spec},
        defines=_defines(x, wide=axes.wide, in_fours=True, stage=1),
        access=None if x.is_float else "storage",
        flops=8 * axes.rows * axes.count,
    )


def _emit_second(emitter: Emitter, reduction: _RowReduction, parts: RowParts, middle: Ref) -> None:
    limits, axes = emitter.problem.limits, _axes_of_parts(reduction.axes, parts.parts)
    shape = axes.shape(limits)
    emitter.dispatch(
        "reduction/reduce",
        [read4(middle), write(emitter.output())],
        groups=shape.groups(axes.rows, limits),
        local=shape.local,
        push={**axes.push(), **RowParts(1, axes.count).push(), "factor": reduction.factor},
        spec={**axes.spec(shape), **reduction.spec},
        defines=_defines(middle, wide=True, in_fours=reduction.in_fours, stage=2),
        access="storage",
    )


def _defines(x: Ref, *, wide: bool, in_fours: bool, stage: int) -> Mapping[str, int]:
    return {"ELEM": int(not x.is_float), "WIDE": int(wide), "OUT4": int(in_fours), "STAGE": stage}
