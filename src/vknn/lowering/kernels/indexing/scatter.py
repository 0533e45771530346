"""ScatterND: entries written at indices that are data.

First each update is put on the list of its row, then each row is written by one lane.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.indexing.scatter import REDUCTIONS, ScatterND
from vknn.plan import DeviceLimits

#: Indices of a tuple that shaders/indexing/scatter_link.comp has room for.
_MOST_INDICES = 8
#: Sums and products of at most so many floats are taken in the order of the updates, so that they
#: come out the same in every run.
_ORDERED = 16
#: Dispatches that a long list may be cut into.
_MOST_PASSES = 64
#: WRAP of shaders/indexing/scatter_apply.comp: bits of an integer, below 0 where it has a sign.
_WRAPS = {DType.INT8: -8, DType.UINT8: 8, DType.INT16: -16}
#: Reductions of booleans, which are stored as 0 and 1.
_OF_BOOL = {"add": "max", "mul": "min"}


@dataclass(frozen=True)
class _Scatter:
    """A ScatterND that is taken ``most`` updates at a time.

    ``sizes``: of the axes that a tuple of indices names. ``inner``: elements of a row.
    ``updates``: how many there are. ``ordered``: lists so long are taken in the updates' order.
    """

    sizes: tuple[int, ...]
    inner: int
    updates: int
    most: int
    reduction: str
    ordered: int

    @property
    def rows(self) -> int:
        return math.prod(self.sizes)

    @property
    def passes(self) -> int:
        return ceil_div(self.updates, self.most)

    def updates_from(self, first: int) -> int:
        """Updates of the pass that begins with the ``first``."""
        return min(self.most, self.updates - first)


@lowers(ScatterND)
def scatter_nd(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a copy of x, in which one lane writes each element of each named row."""
    (x, indices, updates), op = problem.inputs, problem.op
    assert x is not None and indices is not None and updates is not None
    assert isinstance(op, ScatterND)
    tuple_size = indices.dims[-1]
    if not 1 <= tuple_size <= _MOST_INDICES or 0 in (x.size, updates.size):
        return []
    count, sizes = math.prod(indices.dims[:-1]), x.dims[:tuple_size]
    reduction = _OF_BOOL.get(op.reduction, op.reduction) if x.dtype is DType.BOOL else op.reduction
    ordered = _ORDERED if x.dtype.is_float and reduction in ("add", "mul") else 0
    most = _updates_in_a_pass(count, reduction, ordered, problem.limits)
    rows = math.prod(sizes)
    if most is None or not fits_buffer(problem.limits, rows + 2 * most):
        return []
    scatter = _Scatter(sizes, x.size // rows, count, most, reduction, min(ordered, most))
    emit = functools.partial(_emit_scatter, scatter=scatter)
    moved = 2 * storage_bytes(x, Layout.LINEAR) + 4 * rows * scatter.passes + 12 * updates.size
    machine = problem.machine
    cost = 2 * scatter.passes * machine.dispatch + moved * machine.byte
    return [Candidate("lists", (Layout.LINEAR,) * 3, (Layout.LINEAR,), emit, cost)]


def _updates_in_a_pass(
    count: int, reduction: str, ordered: int, limits: DeviceLimits
) -> int | None:
    """Updates that may be on one list, so that a lane can walk it; None where passes are many."""
    most = count
    while reduction != "none" and _walk(most, ordered) >= limits.max_loop_rounds:
        most = most // 2
        if most == 0 or ceil_div(count, most) > _MOST_PASSES:
            return None
    return most


def _walk(count: int, ordered: int) -> int:
    """Rounds of a lane's loops over a list of ``count`` updates."""
    few = min(count, ordered)
    return (rounds(count) if few else 0) + max(rounds(count), rounds(few, few) if few else 0)


def _emit_scatter(emitter: Emitter, scatter: _Scatter) -> None:
    links = emitter.scratch("links", scatter.rows + 2 * scatter.most, dtype=DType.INT32)
    output = emitter.output()
    emitter.copy(emitter.input(0), output, scatter.rows * scatter.inner * output.width)
    for first in range(0, scatter.updates, scatter.most):
        _emit_link(emitter, scatter, links, first)
        # Each element is read and written by one lane, which may do both in one buffer.
        source = output if first else emitter.input(0)
        _emit_apply(emitter, scatter, links, first, source)


def _emit_link(emitter: Emitter, scatter: _Scatter, links: Ref, first: int) -> None:
    """Puts the updates of a pass on the lists of their rows."""
    op, tuple_size = emitter.problem.op, len(scatter.sizes)
    assert isinstance(op, ScatterND)
    count = scatter.updates_from(first)
    emitter.fill(links, -1)
    emitter.dispatch_items(
        "indexing/scatter_link",
        [read1(emitter.input(1)), update(links)],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "first": first,
            "rows": scatter.rows,
            "from_end": int(op.from_end),
            "size": (*scatter.sizes, *[1] * (_MOST_INDICES - tuple_size)),
        },
        spec={"TUPLE_SIZE": tuple_size, "LAST": int(scatter.reduction == "none")},
    )


def _emit_apply(emitter: Emitter, scatter: _Scatter, links: Ref, first: int, source: Ref) -> None:
    """Writes the rows that have a list."""
    type_, target = emitter.problem.outputs[0], emitter.output()
    wide = scatter.inner % 4 == 0
    count, inner = scatter.updates_from(first), scatter.inner // 4 if wide else scatter.inner
    walk = 1 if scatter.reduction == "none" else _walk(count, scatter.ordered)
    read = read4 if wide else read1
    emitter.dispatch_items(
        "indexing/scatter_apply",
        [read(source), read(emitter.input(2)), read1(links), write(target)],
        grid(emitter.problem.limits, count * inner, item_rounds=walk),
        push={
            "count": count * inner,
            "first": first,
            "update_count": count,
            "rows": scatter.rows,
            "inner": inner,
        },
        spec={
            "REDUCTION": REDUCTIONS.index(scatter.reduction),
            "ORDERED": scatter.ordered,
            "WRAP": _WRAPS.get(type_.dtype, 0),
        },
        defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
    )
