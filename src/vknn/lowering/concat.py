"""Concat: copies of what stays in a row, otherwise a dispatch for each input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.emitter import Emitter, read1, read4, write
from vknn.lowering.indexing import grid
from vknn.lowering.layouts import Layout, packed_shape
from vknn.lowering.registry import BYTE_COST, DISPATCH_COST, Candidate, Problem
from vknn.ops.movement import Concat

#: A copy is cheaper than a dispatch.
_COPY_COST = 5.0


def concat_candidates(problem: Problem) -> Sequence[Candidate]:
    types = [t for t in problem.inputs if t is not None]
    op, (y,) = problem.op, problem.outputs
    assert isinstance(op, Concat)
    axis = op.axis % y.rank
    found = [_rows(types, y, axis, Layout.LINEAR)]
    if y.rank < 2:
        return found
    starts = itertools.accumulate((t.dims[axis] for t in types[:-1]), initial=0)
    if axis != 1 or all(s % 4 == 0 for s in starts):
        found.append(_rows(types, y, axis, Layout.C4))
    else:
        found.append(_lanes(types, y))
    return found


def _rows(types: Sequence[TensorType], y: TensorType, axis: int, layout: Layout) -> Candidate:
    """Each input is rows that go into the output's longer rows as they are."""
    lengths = [math.prod(packed_shape(t, layout)[axis:]) for t in types]
    total = math.prod(packed_shape(y, layout)[axis:])
    rows = math.prod(packed_shape(y, layout)[:axis])
    starts = list(itertools.accumulate(lengths[:-1], initial=0))

    def emit(emitter: Emitter) -> None:
        for index, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            if rows == 1:
                x, target = emitter.input(index), emitter.output()
                emitter.copy(x, target, x.width * length, target_offset=x.width * start)
            else:
                _place(emitter, index, rows, length, total, start)

    each = _COPY_COST if rows == 1 else DISPATCH_COST
    cost = len(types) * each + 8 * rows * total * BYTE_COST
    name = f"rows_{layout.value}"
    return Candidate(name, (layout,) * len(types), (layout,), emit, cost)


def _place(emitter: Emitter, index: int, rows: int, length: int, total: int, start: int) -> None:
    x, y = emitter.input(index), emitter.output()
    wide = length % 4 == 0 and total % 4 == 0 and start % 4 == 0
    unit = 4 if wide else 1
    count = rows * length // unit
    share = grid(emitter.problem.limits, count)
    emitter.dispatch(
        "movement/place",
        [read4(x) if wide else read1(x), write(y)],
        groups=share.groups,
        local=share.local,
        push=[count, share.chunk, length // unit, total // unit, start // unit],
        spec=share.spec,
        defines={"ELEM": int(not y.is_float), "WIDE": int(wide)},
    )


def _lanes(types: Sequence[TensorType], y: TensorType) -> Candidate:
    """Channels of C4 tensors that begin within a block of four."""

    def emit(emitter: Emitter) -> None:
        if len(types) == 2:
            _join_channels(emitter, types[0], types[1], y)
            return
        start = 0
        for index, type_ in enumerate(types):
            _place_channels(emitter, index, type_, y, start)
            start += type_.dims[1]

    layouts = (Layout.C4,) * len(types)
    dispatches = 1 if len(types) == 2 else len(types)
    cost = dispatches * (DISPATCH_COST + 8 * y.size * BYTE_COST)
    return Candidate("lanes_c4", layouts, (Layout.C4,), emit, cost)


def _join_channels(emitter: Emitter, x: TensorType, w: TensorType, y: TensorType) -> None:
    n, channels, *rest = y.dims
    spatial = math.prod(rest)
    blocks_x, blocks_w, blocks = (-(-c // 4) for c in (x.dims[1], w.dims[1], channels))
    count = n * blocks * spatial
    share = grid(emitter.problem.limits, count)
    target = emitter.output()
    emitter.dispatch(
        "movement/join_channels",
        [read4(emitter.input(0)), read4(emitter.input(1)), write(target)],
        groups=share.groups,
        local=share.local,
        push=[
            *(count, share.chunk, spatial, x.dims[1], w.dims[1]),
            *(blocks_x, blocks_w, blocks),
        ],
        spec=share.spec,
        defines={"ELEM": int(not target.is_float)},
    )


def _place_channels(emitter: Emitter, index: int, x: TensorType, y: TensorType, start: int) -> None:
    n, channels, *rest = x.dims
    spatial = math.prod(rest)
    end = start + channels
    last = index == len(emitter.inputs) - 1
    first, covered = start // 4, -(-end // 4) - start // 4
    count = n * covered * spatial
    share = grid(emitter.problem.limits, count)
    blocks_in, blocks_out = -(-channels // 4), -(-y.dims[1] // 4)
    target = emitter.output()
    emitter.dispatch(
        "movement/place_channels",
        [read4(emitter.input(index)), write(target)],
        groups=share.groups,
        local=share.local,
        push=[
            *(count, share.chunk, spatial, start, channels),
            *(blocks_in, blocks_out, first, covered),
        ],
        spec={10: int(last), **share.spec},
        defines={"ELEM": int(not target.is_float)},
    )
