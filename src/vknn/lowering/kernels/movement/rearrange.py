"""Tile, DepthToSpace, SpaceToDepth, SliceUpdate, MatrixDiag and ReverseSequence."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vknn.graph import TensorType
from vknn.lowering.kernels.movement.gather import GatherAxis, GatherMap, by_field, input_strides
from vknn.lowering.kernels.movement.rule import SCALAR_PENALTY, gather_candidates, view_candidates
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    ceil_div,
    packed_shape,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.movement import rearrange as ops

_SPATIAL = 3
_OVERLAY_AXES = 6


@lowers(ops.Tile)
def tile(problem: Problem) -> Sequence[Candidate]:
    """A gather whose places wrap around."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.Tile)
    if x.size == y.size:
        return view_candidates(problem)
    axes = tuple(
        GatherAxis(size, axis, padded=size != x.dims[axis]) for axis, size in enumerate(y.dims)
    )
    return gather_candidates(problem, GatherMap(x, y, axes, "wrap"))


@lowers(ops.DepthToSpace, ops.SpaceToDepth)
def blocks(problem: Problem) -> Sequence[Candidate]:
    """One dispatch for each pair of layouts; a view for blocks of one element."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.DepthToSpace | ops.SpaceToDepth)
    if op.blocksize == 1:
        return view_candidates(problem)
    pairs = itertools.product(PLAIN, PLAIN)
    return [_blocks_candidate(problem, _BlockMove(op, x, y, *pair)) for pair in pairs]


@dataclass(frozen=True)
class _BlockMove:
    """DepthToSpace or SpaceToDepth for one pair of layouts."""

    op: ops.DepthToSpace | ops.SpaceToDepth
    x: TensorType
    y: TensorType
    source: Layout
    target: Layout

    @property
    def wide(self) -> bool:
        """Whole vec4s of channels stay together."""
        packed = self.source is self.target is Layout.C4 and self.op.mode == "DCR"
        return packed and self.x.dims[1] % 4 == 0 and self.y.dims[1] % 4 == 0


def _blocks_candidate(problem: Problem, move: _BlockMove) -> Candidate:
    machine = problem.machine
    moved = storage_bytes(move.y, move.target) * machine.byte * 2
    cost = machine.dispatch + moved * (1.0 if move.wide else SCALAR_PENALTY)
    name = f"blocks_{move.source.value}_{move.target.value}"
    emit = functools.partial(_emit_blocks, move=move)
    return Candidate(name, (move.source,), (move.target,), emit, cost)


def _emit_blocks(emitter: Emitter, move: _BlockMove) -> None:
    x, y = emitter.input(0), emitter.output()
    count, elements = vector_count(move.y, move.target), packed_shape(move.y, move.target)
    size, spatial = move.op.blocksize, move.x.rank - 2
    lead = (1,) * (_SPATIAL - spatial)
    unit = 4 if move.wide else 1
    emitter.dispatch_items(
        "movement/blocks",
        [read4(x) if move.wide else read1(x), write(y)],
        grid(emitter.problem.limits, count, math.prod(elements)),
        push={
            "count": count,
            "elements": move.y.size,
            "places": size**spatial,
            **by_axis("block", lead + (size,) * spatial),
            "in_c": move.x.dims[1] // unit,
            **by_axis("in", lead + move.x.dims[2:]),
            "out_c": move.y.dims[1] // unit,
            **by_axis("out", lead + move.y.dims[2:]),
        },
        spec={
            "TO_SPACE": int(isinstance(move.op, ops.DepthToSpace)),
            "DCR": int(move.op.mode == "DCR"),
            "IN_C4": int(move.source is Layout.C4 and not move.wide),
            "OUT_C4": int(move.target is Layout.C4),
        },
        defines={"ELEM": int(not y.is_float), "WIDE": int(move.wide)},
    )


@lowers(ops.SliceUpdate)
def slice_update(problem: Problem) -> Sequence[Candidate]:
    """One dispatch that looks at every element of the output."""
    op, x, update = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, ops.SliceUpdate)
    if update.size == 0:
        return []
    found = []
    for layout in PLAIN:
        if not allows(x, layout):
            continue
        box = _box(x, update, op.starts, layout)
        if len(box) <= _OVERLAY_AXES:
            found.append(_overlay(problem, box, layout))
    return found


@dataclass(frozen=True)
class _Side:
    """An axis: the tensor's size, where the block begins and ends, its stride in the update."""

    size: int
    start: int
    extent: int
    stride: int
    channel: bool = False

    def joins(self, inner: _Side) -> bool:
        """True where the block covers the whole of the inner axis."""
        whole = inner.start == 0 and inner.extent == inner.size
        return whole and not self.channel and not inner.channel

    def joined(self, inner: _Side) -> _Side:
        n = inner.size
        return _Side(self.size * n, self.start * n, self.extent * n, inner.stride)

    def in_vectors(self, lane: bool) -> _Side | None:
        """The axis counted in vec4s; None where the block cuts through some."""
        if not lane:
            return replace(self, stride=self.stride // 4)
        # Behind the last channel of the tensor nothing is lost or gained.
        ends = (self.start + self.extent) % 4 == 0 or (
            self.channel and self.start + self.extent == self.size
        )
        if self.start % 4 or not ends or (self.size % 4 and not self.channel):
            return None
        size, extent = ceil_div(self.size, 4), ceil_div(self.extent, 4)
        stride = self.stride // 4 if self.channel else 1
        return _Side(size, self.start // 4, extent, stride)


def _box(
    x: TensorType, update: TensorType, starts: Sequence[int], layout: Layout
) -> tuple[_Side, ...]:
    """The axes, neighbours joined where the block covers the inner one."""
    sides: list[_Side] = []
    strides = input_strides(update, layout)
    for axis, parts in enumerate(zip(x.dims, starts, update.dims, strides, strict=True)):
        side = _Side(*parts, channel=layout is Layout.C4 and axis == 1)
        if sides and sides[-1].joins(side):
            sides[-1] = sides[-1].joined(side)
        else:
            sides.append(side)
    return tuple(sides)


def _overlay(problem: Problem, box: tuple[_Side, ...], layout: Layout) -> Candidate:
    x, machine = problem.input(0), problem.machine
    lane = 1 if layout is Layout.C4 else len(box) - 1
    vectors = [side.in_vectors(number == lane) for number, side in enumerate(box)]
    whole = tuple(side for side in vectors if side is not None)
    wide = len(whole) == len(box)
    emit = functools.partial(
        _emit_overlay, x=x, box=whole if wide else box, layout=layout, lane=lane, wide=wide
    )
    moved = storage_bytes(x, layout) * machine.byte * 2
    cost = machine.dispatch + moved * (1.0 if wide else SCALAR_PENALTY)
    return Candidate(f"overlay_{layout.value}", (layout, layout), (layout,), emit, cost)


def _emit_overlay(
    emitter: Emitter,
    x: TensorType,
    box: tuple[_Side, ...],
    layout: Layout,
    lane: int,
    wide: bool,
) -> None:
    lead = _OVERLAY_AXES - len(box)
    sides = (_Side(1, 0, 1, 0),) * lead + box
    count = vector_count(x, layout)
    scalar_c4 = layout is Layout.C4 and not wide
    sizes = tuple(ceil_div(s.size, 4) if s.channel and scalar_c4 else s.size for s in sides)
    update, target = emitter.input(1), emitter.output()
    emitter.dispatch_items(
        "movement/overlay",
        [read4(emitter.input(0)), read4(update) if wide else read1(update), write(target)],
        grid(emitter.problem.limits, count, math.prod(packed_shape(x, layout))),
        push={
            "count": count,
            "elements": x.size,
            "size": sizes,
            **by_field(sides, "start", "extent", "stride"),
        },
        spec={"CHANNEL": lead + lane if scalar_c4 else -1},
        defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
    )


@lowers(ops.MatrixDiag)
def matrix_diag(problem: Problem) -> Sequence[Candidate]:
    """One dispatch that looks at every element of the output."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.MatrixDiag)
    emit = functools.partial(_emit_matrix_diag, op=op, x=x, y=y)
    machine = problem.machine
    cost = machine.dispatch + storage_bytes(y, Layout.LINEAR) * machine.byte * SCALAR_PENALTY
    return [Candidate("matrix", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


def _emit_matrix_diag(emitter: Emitter, op: ops.MatrixDiag, x: TensorType, y: TensorType) -> None:
    count = vector_count(y, Layout.LINEAR)
    target = emitter.output()
    emitter.dispatch_items(
        "movement/matrix_diag",
        [read1(emitter.input(0)), write(target)],
        grid(emitter.problem.limits, count, y.size),
        push={
            "count": count,
            "elements": y.size,
            "size": y.dims[-1],
            "width": x.dims[-1],
            "down": max(-op.offset, 0),
            "right": max(op.offset, 0),
        },
        defines={"ELEM": int(not target.is_float)},
    )


@lowers(ops.ReverseSequence)
def reverse_sequence(problem: Problem) -> Sequence[Candidate]:
    """A copy of each element, or vec4 of those behind both axes."""
    x, op = problem.input(0), problem.op
    assert isinstance(op, ops.ReverseSequence)
    _, second = sorted((op.batch_axis % x.rank, op.time_axis % x.rank))
    wide = math.prod(x.dims[second + 1 :]) % 4 == 0
    emit = functools.partial(_emit_reverse_sequence, op=op, x=x, wide=wide)
    machine = problem.machine
    moved = 2 * storage_bytes(x, Layout.LINEAR) * machine.byte
    cost = machine.dispatch + moved * (1.0 if wide else SCALAR_PENALTY)
    return [Candidate("places", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]


def _emit_reverse_sequence(
    emitter: Emitter, op: ops.ReverseSequence, x: TensorType, wide: bool
) -> None:
    time = op.time_axis % x.rank
    first, second = sorted((op.batch_axis % x.rank, time))
    unit = 4 if wide else 1
    source, target = emitter.input(0), emitter.output()
    emitter.dispatch_items(
        "movement/reverse_sequence",
        [read4(source) if wide else read1(source), read1(emitter.input(1)), write(target)],
        grid(emitter.problem.limits, x.size // unit),
        push={
            "count": x.size // unit,
            "first": x.dims[first],
            "middle": math.prod(x.dims[first + 1 : second]),
            "second": x.dims[second],
            "inner": math.prod(x.dims[second + 1 :]) // unit,
        },
        spec={"TIME_FIRST": int(time == first)},
        defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
    )
