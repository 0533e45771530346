"""NonZero and Unique: elements that are counted, and written one after the other.

A lane takes some elements in a row; it knows where its own go from the counts of the lanes before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, update, write
from vknn.lowering.kit.grid_loop import Grid, grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.indexing.nonzero import NonZero, Unique
from vknn.plan import DeviceLimits

#: Axes that shaders/indexing/nonzero_places.comp has room for.
_MOST_AXES = 8
#: Elements of a lane, at the least.
_LEAST = 16
#: Dispatches that the comparisons of Unique may be cut into.
_MOST_PASSES = 64


@dataclass(frozen=True)
class _Counting:
    """Lanes that count ``per_lane`` elements each."""

    elements: int
    per_lane: int
    lanes: int
    grid: Grid

    def push(self) -> dict[str, int]:
        """Push constants by name."""
        return {"lanes": self.lanes, "elements": self.elements, "per_lane": self.per_lane}


def _counting(elements: int, limits: DeviceLimits) -> _Counting | None:
    """About as many elements to a lane as there are lanes; None where its loops are too long."""
    if not elements:
        return None
    per_lane = max(_LEAST, math.isqrt(elements) // 2)
    lanes = ceil_div(elements, per_lane)
    each = rounds(lanes) + rounds(per_lane)
    if 1 + each >= limits.max_loop_rounds or not fits_buffer(limits, lanes):
        return None
    return _Counting(elements, per_lane, lanes, grid(limits, lanes, elements, item_rounds=each))


@lowers(NonZero)
def nonzero(problem: Problem) -> Sequence[Candidate]:
    """The candidate: elements are counted, then their places written."""
    x, limits = problem.input(0), problem.limits
    counting = _counting(x.size, limits) if x.rank <= _MOST_AXES else None
    if counting is None or not fits_buffer(limits, x.size * x.rank):
        return []
    emit = functools.partial(_emit_nonzero, counting=counting)
    machine = problem.machine
    cost = 2 * machine.dispatch + 4 * x.size * (2 + x.rank) * machine.byte
    return [Candidate("counted", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


def _emit_nonzero(emitter: Emitter, counting: _Counting) -> None:
    op, x, source = emitter.problem.op, emitter.problem.input(0), emitter.input(0)
    assert isinstance(op, NonZero)
    counts = _emit_counts(emitter, source, counting)
    emitter.dispatch_items(
        "indexing/nonzero_places",
        [read1(source), read1(counts), write(emitter.output(0)), update(emitter.output(1))],
        counting.grid,
        push={**counting.push(), "size": (*[1] * (_MOST_AXES - x.rank), *x.dims)},
        spec={"RANK": x.rank},
        defines={"ELEM": int(not source.is_float), "FLOATS": int(op.dtype.is_float)},
    )


def _emit_counts(emitter: Emitter, x: Ref, counting: _Counting, *, below: bool = False) -> Ref:
    """Counts of each lane's elements that are not zero; with ``below``, that are below zero."""
    counts = emitter.scratch("counts", counting.lanes, dtype=DType.INT32)
    emitter.dispatch_items(
        "indexing/nonzero_count",
        [read1(x), write(counts)],
        counting.grid,
        push=counting.push(),
        spec={"BELOW": int(below)},
        defines={"ELEM": int(not x.is_float)},
    )
    return counts


@lowers(Unique)
def unique(problem: Problem) -> Sequence[Candidate]:
    """The candidate: each element is compared with those before it; first ones are numbered."""
    x, limits = problem.input(0), problem.limits
    counting = _counting(x.size, limits)
    span = min(x.size, limits.max_loop_rounds // 2 - 1)
    passes = ceil_div(x.size, max(1, span))
    if counting is None or passes > _MOST_PASSES or not fits_buffer(limits, 2 * x.size):
        return []
    emit = functools.partial(_emit_unique, counting=counting, span=span)
    machine = problem.machine
    cost = (3 + passes) * machine.dispatch + x.size * x.size * machine.flop
    return [Candidate("compared", (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost)]


def _emit_unique(emitter: Emitter, counting: _Counting, span: int) -> None:
    x = emitter.problem.input(0)
    marks = emitter.scratch("marks", 2 * x.size, dtype=DType.INT32)
    emitter.fill(marks, -1)
    for first in range(0, x.size, span):
        _emit_twins(emitter, x, marks, first, span)
    counts = _emit_counts(emitter, marks, counting, below=True)
    emitter.dispatch_items(
        "indexing/nonzero_numbers",
        [read1(counts), update(marks), update(emitter.output(2))],
        counting.grid,
        push=counting.push(),
    )
    _emit_different(emitter, x, marks)


def _emit_twins(emitter: Emitter, x: TensorType, marks: Ref, first: int, span: int) -> None:
    """Marks elements that equal one of the ``span`` elements from ``first`` on."""
    source = emitter.input(0)
    emitter.dispatch_items(
        "indexing/nonzero_twins",
        [read1(source), update(marks)],
        grid(emitter.problem.limits, x.size, item_rounds=rounds(span)),
        push={"count": x.size, "first": first, "last": min(first + span, x.size)},
        defines={"ELEM": int(not source.is_float)},
        flops=x.size * span,
    )


def _emit_different(emitter: Emitter, x: TensorType, marks: Ref) -> None:
    """The different elements, and which of them each element is."""
    source = emitter.input(0)
    emitter.dispatch_items(
        "indexing/nonzero_unique",
        [read1(source), read1(marks), write(emitter.output(0)), write(emitter.output(1))],
        grid(emitter.problem.limits, x.size),
        push={"count": x.size},
        defines={"ELEM": int(not source.is_float)},
    )
