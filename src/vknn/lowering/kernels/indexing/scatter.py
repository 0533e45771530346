"""Entries written to places that are data: lists of updates by row, then a row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.indexing.scatter import REDUCTIONS, ScatterND
from vknn.plan import DeviceLimits

#: Axes that tuples of indices may name in shaders/indexing/scatter_link.comp.
_NAMED = 8
#: Sums and products of at most so many floats are taken in the order of the updates, so that they
#: come out the same in every run.
_ORDERED = 16
#: Dispatches that a long list may be cut into.
_MOST_PASSES = 64
_WRAPS = {DType.INT8: -8, DType.UINT8: 8, DType.INT16: -16}
#: What adding and multiplying mean for truth values.
_OF_BOOL = {"add": "max", "mul": "min"}


@lowers(ScatterND)
def scatter_nd(problem: Problem) -> Sequence[Candidate]:
    """A copy of x, in which each row that is named is written by one lane for each element."""
    x, indices, updates = problem.inputs
    op = problem.op
    assert x is not None and indices is not None and updates is not None
    assert isinstance(op, ScatterND)
    named = indices.dims[-1]
    if not 1 <= named <= _NAMED or 0 in (x.size, updates.size):
        return []
    count, rows = math.prod(indices.dims[:-1]), math.prod(x.dims[:named])
    reduction = _OF_BOOL.get(op.reduction, op.reduction) if x.dtype is DType.BOOL else op.reduction
    ordered = _ORDERED if x.dtype.is_float and reduction in ("add", "mul") else 0
    most = _updates_in_a_pass(count, reduction, ordered, problem.limits)
    if most is None or not fits_buffer(problem.limits, rows + 2 * most):
        return []
    emit = _Emit(op, x, x.dims[:named], count, most, reduction, min(ordered, most))
    passes = -(-count // most)
    moved = 2 * storage_bytes(x, Layout.LINEAR) + 4 * rows * passes + 12 * updates.size
    cost = 2 * passes * DISPATCH_COST + moved * BYTE_COST
    return [Candidate("lists", (Layout.LINEAR,) * 3, (Layout.LINEAR,), emit, cost)]


def _updates_in_a_pass(
    count: int, reduction: str, ordered: int, limits: DeviceLimits
) -> int | None:
    """How many may be on one list, so that a lane can walk it; None: too few."""
    most = count
    while reduction != "none" and _walk(most, ordered) >= limits.max_loop_rounds:
        most = most // 2
        if most == 0 or -(-count // most) > _MOST_PASSES:
            return None
    return most


def _walk(count: int, ordered: int) -> int:
    few = min(count, ordered)
    return (rounds(count) if few else 0) + max(rounds(count), rounds(few, few) if few else 0)


@dataclass(frozen=True)
class _Emit:
    op: ScatterND
    x: TensorType
    sizes: tuple[int, ...]
    count: int
    most: int
    reduction: str
    ordered: int

    @property
    def rows(self) -> int:
        return math.prod(self.sizes)

    def __call__(self, emitter: Emitter) -> None:
        passes = -(-self.count // self.most)
        links = emitter.scratch("links", self.rows + 2 * self.most, dtype=DType.INT32)
        output = emitter.output()
        emitter.copy(emitter.input(0), output, self.x.size * output.width)
        for number in range(passes):
            first = number * self.most
            self._link(emitter, links, first)
            # Each element is read and written by one lane, which may do both in one buffer.
            source = output if number else emitter.input(0)
            self._apply(emitter, links, first, source, output)

    def _link(self, emitter: Emitter, links: Ref, first: int) -> None:
        count = min(self.most, self.count - first)
        share = grid(emitter.problem.limits, count)
        named = len(self.sizes)
        emitter.fill(links, -1)
        push = [count, share.chunk, first, self.rows, int(self.op.from_end)]
        emitter.dispatch(
            "indexing/scatter_link",
            [read1(emitter.input(1)), update(links)],
            groups=share.groups,
            local=share.local,
            push=[*push, *self.sizes, *[1] * (_NAMED - named)],
            spec=share.spec | {10: named, 11: int(self.reduction == "none")},
        )

    def _apply(self, emitter: Emitter, links: Ref, first: int, source: Ref, target: Ref) -> None:
        count, inner = min(self.most, self.count - first), self.x.size // self.rows
        wide = inner % 4 == 0
        inner = inner // 4 if wide else inner
        each = 1 if self.reduction == "none" else _walk(count, self.ordered)
        share = grid(emitter.problem.limits, count * inner, item_rounds=each)
        read = read4 if wide else read1
        emitter.dispatch(
            "indexing/scatter_apply",
            [read(source), read(emitter.input(2)), read1(links), write(target)],
            groups=share.groups,
            local=share.local,
            push=[count * inner, share.chunk, first, count, self.rows, inner],
            spec=share.spec
            | {
                10: REDUCTIONS.index(self.reduction),
                11: self.ordered,
                12: _WRAPS.get(self.x.dtype, 0),
            },
            defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
        )
