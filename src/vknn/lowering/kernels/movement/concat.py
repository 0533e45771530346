"""Concat: in place or a copy where inputs stay in a row, otherwise a dispatch for each input."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate, Part
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    Layout,
    allows,
    ceil_div,
    element_bytes,
    packed_shape,
    storage_bytes,
)
from vknn.lowering.kit.problem import Problem
from vknn.ops.movement.shape import Concat


def concat_candidates(problem: Problem) -> Sequence[Candidate]:
    """Concatenation by rows in each layout, and by lanes where channels begin within a block."""
    types = [t for t in problem.inputs if t is not None]
    op, (y,) = problem.op, problem.outputs
    assert isinstance(op, Concat)
    axis = op.axis % y.rank
    found = [_rows(problem, types, axis, Layout.LINEAR)]
    if y.rank < 2:
        return found
    starts = itertools.accumulate((t.dims[axis] for t in types[:-1]), initial=0)
    if axis != 1 or all(s % 4 == 0 for s in starts):
        packed = (Layout.C4, Layout.C4B)
        found += [_rows(problem, types, axis, lay) for lay in packed if allows(y, lay)]
    else:
        found.append(_lanes(problem, types))
    return found


def _rows(problem: Problem, types: Sequence[TensorType], axis: int, layout: Layout) -> Candidate:
    """Each input is rows that go into the output's longer rows as they are."""
    (y,) = problem.outputs
    lengths = [math.prod(packed_shape(t, layout)[axis:]) for t in types]
    total = math.prod(packed_shape(y, layout)[axis:])
    rows = math.prod(packed_shape(y, layout)[:axis])
    starts = list(itertools.accumulate(lengths[:-1], initial=0))
    emit = functools.partial(_emit_rows, rows=rows, lengths=lengths, starts=starts, total=total)
    name, layouts = f"rows_{layout.value}", (layout,) * len(types)
    machine = problem.machine
    if rows > 1:
        moved = 2 * _width(problem, y, layout) * rows * total
        cost = len(types) * machine.dispatch + moved * machine.byte
        return Candidate(name, layouts, (layout,), emit, cost)
    parts = _parts(problem, types, starts, layout)
    cost = sum(part.cost for part in parts)
    return Candidate(name, layouts, (layout,), emit, cost, parts=parts)


def _emit_rows(
    emitter: Emitter, rows: int, lengths: Sequence[int], starts: Sequence[int], total: int
) -> None:
    for index, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if index in emitter.placed:
            continue
        if rows == 1:
            x, target = emitter.input(index), emitter.output()
            emitter.copy(x, target, x.width * length, target_offset=x.width * start)
        else:
            _place(emitter, index, rows, length, total, start)


def _parts(
    problem: Problem, types: Sequence[TensorType], starts: Sequence[int], layout: Layout
) -> tuple[Part, ...]:
    """The inputs as parts of the output, beginning at these elements of it.

    A producer may write up to 16 bytes' end; where that is not the part's own, it cannot do so in
    place.
    """
    (y,), options = problem.outputs, problem.options
    width, alignment = _width(problem, y, layout), problem.limits.alignment
    ends = [width * start for start in starts[1:]] + [storage_bytes(y, layout, options.half)]
    parts = []
    machine = problem.machine
    for type_, start, end in zip(types, starts, ends, strict=True):
        offset, nbytes = width * start, storage_bytes(type_, layout, options.half)
        own = offset % alignment == 0 and offset + nbytes <= end
        able = own and "concat" not in options.disabled
        parts.append(Part(offset if able else None, machine.copy + 2 * nbytes * machine.byte))
    return tuple(parts)


def _width(problem: Problem, type_: TensorType, layout: Layout) -> int:
    return element_bytes(type_.dtype, problem.options.half, layout)


def _place(emitter: Emitter, index: int, rows: int, length: int, total: int, start: int) -> None:
    x, y = emitter.input(index), emitter.output()
    # What lies in bytes is moved by words, and read as the vec4s that these are.
    wide = not x.is_bytes and length % 4 == 0 and total % 4 == 0 and start % 4 == 0
    unit = 4 if wide or x.is_bytes else 1
    count = rows * length // unit
    emitter.dispatch_items(
        "movement/place",
        [read4(x) if wide or x.is_bytes else read1(x), write(y)],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "row_size": length // unit,
            "stride": total // unit,
            "offset": start // unit,
        },
        defines={"ELEM": int(not y.is_float), "WIDE": int(wide)},
    )


def _lanes(problem: Problem, types: Sequence[TensorType]) -> Candidate:
    """Channels of C4 tensors that begin within a block of four."""
    (y,), machine = problem.outputs, problem.machine
    emit = functools.partial(_emit_lanes, types=types, y=y)
    layouts = (Layout.C4,) * len(types)
    dispatches = 1 if len(types) == 2 else len(types)
    cost = dispatches * (machine.dispatch + 8 * y.size * machine.byte)
    return Candidate("lanes_c4", layouts, (Layout.C4,), emit, cost)


def _emit_lanes(emitter: Emitter, types: Sequence[TensorType], y: TensorType) -> None:
    if len(types) == 2:
        _join_channels(emitter, types[0], types[1], y)
        return
    start = 0
    for index, type_ in enumerate(types):
        _place_channels(emitter, index, type_, y, start)
        start += type_.dims[1]


def _join_channels(emitter: Emitter, x: TensorType, w: TensorType, y: TensorType) -> None:
    n, channels, *rest = y.dims
    spatial = math.prod(rest)
    blocks_x, blocks_w, blocks = (ceil_div(c, 4) for c in (x.dims[1], w.dims[1], channels))
    count = n * blocks * spatial
    target = emitter.output()
    emitter.dispatch_items(
        "movement/join_channels",
        [read4(emitter.input(0)), read4(emitter.input(1)), write(target)],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "spatial": spatial,
            "channels_x": x.dims[1],
            "channels_w": w.dims[1],
            "blocks_x": blocks_x,
            "blocks_w": blocks_w,
            "blocks": blocks,
        },
        defines={"ELEM": int(not target.is_float)},
    )


def _place_channels(emitter: Emitter, index: int, x: TensorType, y: TensorType, start: int) -> None:
    n, channels, *rest = x.dims
    spatial = math.prod(rest)
    end = start + channels
    last = index == len(emitter.inputs) - 1
    first, covered = start // 4, ceil_div(end, 4) - start // 4
    count = n * covered * spatial
    target = emitter.output()
    emitter.dispatch_items(
        "movement/place_channels",
        [read4(emitter.input(index)), write(target)],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "spatial": spatial,
            "offset": start,
            "channels": channels,
            "blocks_in": ceil_div(channels, 4),
            "blocks_out": ceil_div(y.dims[1], 4),
            "first": first,
            "covered": covered,
        },
        spec={"LAST": int(last)},
        defines={"ELEM": int(not target.is_float)},
    )
