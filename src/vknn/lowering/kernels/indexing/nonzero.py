"""Elements counted and put side by side: a lane takes elements in a row, and knows where its own go
from what the lanes before it have counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.graph import DType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, update, write
from vknn.lowering.kit.grid_loop import Grid, grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.indexing.nonzero import NonZero, Unique
from vknn.plan import DeviceLimits

#: Axes that shaders/indexing/nonzero_places.comp has room for.
_AXES = 8
#: Elements of a lane, at the least.
_LEAST = 16
#: Dispatches that the comparisons of Unique may be cut into.
_MOST_PASSES = 64


def _row(count: int) -> int:
    """Elements that a lane takes: about as many as there are lanes to add up."""
    return max(_LEAST, math.isqrt(count) // 2)


def _lanes(count: int, limits: DeviceLimits) -> Grid | None:
    """A lane for each row of elements; None where its loops would be too long."""
    row = _row(count)
    lanes = ceil_div(count, row)
    each = rounds(lanes) + rounds(row)
    if 1 + each >= limits.max_loop_rounds or not fits_buffer(limits, lanes):
        return None
    return grid(limits, lanes, count, item_rounds=each)


@lowers(NonZero)
def nonzero(problem: Problem) -> Sequence[Candidate]:
    """Counted first, then written."""
    (x,), op = problem.inputs, problem.op
    assert x is not None and isinstance(op, NonZero)
    share = _lanes(x.size, problem.limits) if x.size and x.rank <= _AXES else None
    if share is None or not fits_buffer(problem.limits, x.size * x.rank):
        return []
    lanes = ceil_div(x.size, _row(x.size))

    def emit(emitter: Emitter) -> None:
        source, counts = emitter.input(0), _counted(emitter, emitter.input(0), x.size, share)
        emitter.dispatch(
            "indexing/nonzero_places",
            [read1(source), read1(counts), write(emitter.output(0)), update(emitter.output(1))],
            groups=share.groups,
            local=share.local,
            push=[
                *(lanes, share.chunk, x.size, _row(x.size)),
                *([1] * (_AXES - x.rank)),
                *x.dims,
            ],
            spec=share.spec | {10: x.rank},
            defines={"ELEM": int(not source.is_float), "FLOATS": int(op.dtype.is_float)},
        )

    cost = 2 * DISPATCH_COST + 4 * x.size * (2 + x.rank) * BYTE_COST
    return [Candidate("counted", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


def _counted(emitter: Emitter, x: Ref, size: int, share: Grid, first: bool = False) -> Ref:
    """How many elements of each lane count. ``first``: those that are below 0."""
    lanes = ceil_div(size, _row(size))
    counts = emitter.scratch("counts", lanes, dtype=DType.INT32)
    emitter.dispatch(
        "indexing/nonzero_count",
        [read1(x), write(counts)],
        groups=share.groups,
        local=share.local,
        push=[lanes, share.chunk, size, _row(size)],
        spec=share.spec | {10: int(first)},
        defines={"ELEM": int(not x.is_float)},
    )
    return counts


@lowers(Unique)
def unique(problem: Problem) -> Sequence[Candidate]:
    """Each element is compared with those before it; the first ones are numbered in order."""
    (x,), limits = problem.inputs, problem.limits
    assert x is not None
    share = _lanes(x.size, limits) if x.size else None
    span = min(x.size, limits.max_loop_rounds // 2 - 1)
    passes = ceil_div(x.size, max(1, span))
    if share is None or passes > _MOST_PASSES or not fits_buffer(limits, 2 * x.size):
        return []
    lanes = ceil_div(x.size, _row(x.size))

    def emit(emitter: Emitter) -> None:
        source = emitter.input(0)
        marks = emitter.scratch("marks", 2 * x.size, dtype=DType.INT32)
        emitter.fill(marks, -1)
        defines = {"ELEM": int(not source.is_float)}
        for first in range(0, x.size, span):
            over = grid(limits, x.size, item_rounds=rounds(span))
            emitter.dispatch(
                "indexing/nonzero_twins",
                [read1(source), update(marks)],
                groups=over.groups,
                local=over.local,
                push=[x.size, over.chunk, first, min(first + span, x.size)],
                spec=over.spec,
                defines=defines,
                flops=x.size * span,
            )
        counts = _counted(emitter, marks, x.size, share, first=True)
        emitter.dispatch(
            "indexing/nonzero_numbers",
            [read1(counts), update(marks), update(emitter.output(2))],
            groups=share.groups,
            local=share.local,
            push=[lanes, share.chunk, x.size, _row(x.size)],
            spec=share.spec,
        )
        over = grid(limits, x.size)
        emitter.dispatch(
            "indexing/nonzero_unique",
            [read1(source), read1(marks), write(emitter.output(0)), write(emitter.output(1))],
            groups=over.groups,
            local=over.local,
            push=[x.size, over.chunk],
            spec=over.spec,
            defines=defines,
        )

    cost = (3 + passes) * DISPATCH_COST + x.size * x.size * FLOP_COST
    return [Candidate("compared", (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost)]
