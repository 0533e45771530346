"""Where the largest element lies, and which are the k largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, rounds, spread
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.plan import DeviceLimits

#: Estimated microseconds that a lane of a GPU waits for an element of a line.
_LATENCY = 0.5
#: Of shared memory that a lane of extreme.comp has: a vec4 and its places.
_SHARED_BYTES = 32
#: Elements of the runs that a merge sort begins with.
_RUN = 32
#: Estimated microseconds of a comparison of two elements.
_COMPARISON = 8 * FLOP_COST


@dataclass(frozen=True)
class Strided:
    """``lines`` of ``count`` elements (or vec4s of four lines, if ``wide``), ``inner`` apart."""

    lines: int
    count: int
    inner: int
    wide: bool


def strided(x: TensorType, axis: int, layout: Layout) -> Strided | None:
    """The lines along an axis; None along the channels of C4, which run through the vec4s."""
    if not allows(x, layout) or (layout is Layout.C4 and axis == 1):
        return None
    sizes = list(x.dims)
    if layout is Layout.C4:
        sizes[1] = ceil_div(sizes[1], 4)
    inner, outer = math.prod(sizes[axis + 1 :]), math.prod(sizes[:axis])
    if layout is Layout.C4:
        return Strided(outer * inner, sizes[axis], inner, True)
    if inner % 4 == 0:
        return Strided(outer * inner // 4, sizes[axis], inner // 4, True)
    return Strided(outer * inner, sizes[axis], inner, False)


@lowers(ArgMax, ArgMin)
def extremes(problem: Problem) -> Sequence[Candidate]:
    """The lanes of a line compare what they have found."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, ArgMax | ArgMin) and x is not None
    axis, found = op.axis % x.rank, []
    for layout in PLAIN:
        lines = strided(x, axis, layout)
        # Without its axis 0 a tensor has its channels elsewhere.
        if lines is None or (layout is Layout.C4 and axis == 0 and not op.keepdims):
            continue
        shape = row_shape(lines.lines, lines.count, problem.limits)
        shared = _SHARED_BYTES * shape.lanes * shape.rows
        room = shape.lanes == 1 or shared <= problem.limits.shared_memory
        if room and shape.fits(lines.lines, lines.count, problem.limits):
            emit = _EmitExtreme(op, x, lines, shape, layout)
            cost = DISPATCH_COST + storage_bytes(x, layout) * BYTE_COST + x.size * _COMPARISON
            cost += _LATENCY * lines.count / shape.lanes
            found.append(Candidate(f"lines_{layout.value}", (layout,), (layout,), emit, cost))
    return found


@dataclass(frozen=True)
class _EmitExtreme:
    op: ArgMax | ArgMin
    x: TensorType
    lines: Strided
    shape: RowShape
    layout: Layout

    def __call__(self, emitter: Emitter) -> None:
        x, lines, limits = emitter.input(0), self.lines, emitter.problem.limits
        plane, channels = 1, 1
        if self.layout is Layout.C4:
            plane, channels = math.prod(self.x.dims[2:]), self.x.dims[1]
        emitter.dispatch(
            "indexing/arg_extreme",
            [read4(x) if lines.wide else read1(x), write(emitter.output())],
            groups=self.shape.groups(lines.lines, limits),
            local=self.shape.local,
            push=[
                *(lines.lines, lines.count, lines.inner),
                *(plane, ceil_div(channels, 4), channels),
            ],
            spec={
                10: self.shape.lanes,
                11: self.shape.rows,
                12: int(self.op.largest),
                13: int(self.op.select_last),
                14: int(self.layout is Layout.C4 and channels % 4 != 0),
                15: int(self.op.nan_last),
            },
            defines={"WIDE": int(lines.wide), "ELEM": int(not x.is_float)},
            access=None if x.is_float else "storage",
            flops=self.x.size,
        )


@lowers(TopK)
def largest(problem: Problem) -> Sequence[Candidate]:
    """By rank (each element against each of its line), or one after the other."""
    op, x, limits = problem.op, problem.inputs[0], problem.limits
    assert isinstance(op, TopK) and x is not None
    axis = op.axis % x.rank
    count, inner = x.dims[axis], math.prod(x.dims[axis + 1 :])
    lines = Strided(x.size // max(1, count), count, inner, False)
    if not op.sorted and not fits_loops(limits, op.k):
        return []
    base = (1 if op.sorted else 2) * DISPATCH_COST + x.size * 4 * BYTE_COST
    found = []
    if fits_loops(limits, ceil_div(count, 4) + 1):
        cost = base + x.size * count * _COMPARISON
        emit = _EmitTop(op, x, lines, "rank", 1)
        found.append(Candidate("rank", (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost))
    lanes = _picking_lanes(op.k, count, limits)
    if lanes is not None and fits(lines.lines, limits):
        waiting = op.k * ceil_div(count, lanes) * (0.0 if limits.kind == "cpu" else _LATENCY)
        cost = base + op.k * x.size * _COMPARISON + waiting + op.k * lines.lines * 0.01
        emit = _EmitTop(op, x, lines, "pick", lanes)
        found.append(Candidate("pick", (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost))
    if count > _RUN and fits_loops(limits, max(_RUN, count.bit_length() + 1)):
        runs = _merged_runs(count)
        looks = _RUN + sum(run.bit_length() for run in runs)
        cost = base + len(runs) * (DISPATCH_COST + 16 * x.size * BYTE_COST)
        cost += looks * x.size * _COMPARISON
        emit = _EmitTop(op, x, lines, "merge", 1)
        found.append(Candidate("merge", (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost))
    return found


def _merged_runs(count: int) -> list[int]:
    """The lengths of the runs that each pass behind the first merges."""
    runs = [_RUN]
    while 2 * runs[-1] < count:
        runs.append(2 * runs[-1])
    return runs


def _picking_lanes(k: int, count: int, limits: DeviceLimits) -> int | None:
    """Lanes of a line, a power of two; None where a device cannot have enough of them."""
    most = min(limits.max_group_size[0], limits.max_group_invocations, limits.shared_memory // 8)
    lanes = min(8 if limits.kind == "cpu" else 64, 1 << (most.bit_length() - 1))
    while 2 * lanes <= most and (limits.kind != "cpu" and lanes < 256 and lanes * 16 < count):
        lanes *= 2
    while not _picks(k, count, lanes, limits):
        lanes *= 2
        if lanes > most:
            return None
    return lanes


def _picks(k: int, count: int, lanes: int, limits: DeviceLimits) -> bool:
    inner = rounds(ceil_div(count, lanes)) + rounds(lanes.bit_length())
    return k * (1 + inner) + 1 <= limits.max_loop_rounds


@dataclass(frozen=True)
class _EmitTop:
    op: TopK
    x: TensorType
    lines: Strided
    algorithm: str
    lanes: int

    def __call__(self, emitter: Emitter) -> None:
        values, indices = emitter.output(0), emitter.output(1)
        if not self.op.sorted:
            total, dtype = emitter.problem.outputs[0].size, emitter.problem.outputs[0].dtype
            values = emitter.scratch("values", total, dtype=dtype, as_tensor=True)
            indices = emitter.scratch("indices", total, dtype=DType.INT32)
        find = {"rank": self._rank, "pick": self._pick, "merge": self._merge}[self.algorithm]
        find(emitter, values, indices)
        if not self.op.sorted:
            self._reorder(emitter, values, indices)

    def _rank(self, emitter: Emitter, values: Ref, indices: Ref) -> None:
        x, lines = emitter.input(0), self.lines
        item_rounds = rounds(ceil_div(lines.count, 4))
        share = grid(emitter.problem.limits, self.x.size, item_rounds=item_rounds)
        emitter.dispatch(
            "indexing/topk_rank",
            [read1(x), write(values), write(indices)],
            groups=share.groups,
            local=share.local,
            push=[self.x.size, share.chunk, lines.count, lines.inner, self.op.k],
            spec=share.spec | {10: int(self.op.largest)},
            defines={"ELEM": int(not x.is_float)},
            access=None if x.is_float else "storage",
            flops=self.x.size * lines.count,
        )

    def _pick(self, emitter: Emitter, values: Ref, indices: Ref) -> None:
        x, lines = emitter.input(0), self.lines
        emitter.dispatch(
            "indexing/topk_pick",
            [read1(x), write(values), write(indices)],
            groups=spread(lines.lines, emitter.problem.limits),
            local=(self.lanes, 1, 1),
            push=[lines.lines, lines.count, lines.inner, self.op.k],
            spec={10: self.lanes, 11: int(self.op.largest)},
            defines={"ELEM": int(not x.is_float)},
            access=None if x.is_float else "storage",
            flops=self.x.size * self.op.k,
        )

    def _merge(self, emitter: Emitter, values: Ref, indices: Ref) -> None:
        runs, dtype, size = _merged_runs(self.lines.count), self.x.dtype, self.x.size
        pairs = []
        for number in range(min(2, len(runs))):
            kept = emitter.scratch(f"values{number}", size, dtype=dtype, as_tensor=True)
            pairs.append((kept, emitter.scratch(f"indices{number}", size, dtype=DType.INT32)))
        self._merge_pass(emitter, (emitter.input(0),), pairs[0], _RUN, first=True)
        for number, run in enumerate(runs):
            last = number == len(runs) - 1
            target = (values, indices) if last else pairs[(number + 1) % 2]
            self._merge_pass(emitter, pairs[number % 2], target, run, last=last)

    def _merge_pass(
        self,
        emitter: Emitter,
        source: Sequence[Ref],
        target: Sequence[Ref],
        run: int,
        first: bool = False,
        last: bool = False,
    ) -> None:
        lines = self.lines
        each = run if first else run.bit_length() + 1
        share = grid(emitter.problem.limits, self.x.size, item_rounds=rounds(each))
        kept = self.op.k if last else lines.count
        emitter.dispatch(
            "indexing/topk_merge",
            [*map(read1, source), *map(write, target)],
            groups=share.groups,
            local=share.local,
            push=[self.x.size, share.chunk, lines.count, lines.inner, kept, run],
            spec=share.spec | {10: int(self.op.largest)},
            defines={"ELEM": int(not source[0].is_float), "FIRST": int(first)},
            access="storage",
            flops=self.x.size * each,
        )

    def _reorder(self, emitter: Emitter, values: Ref, indices: Ref) -> None:
        total = emitter.problem.outputs[0].size
        share = grid(emitter.problem.limits, total, item_rounds=rounds(self.op.k))
        emitter.dispatch(
            "indexing/topk_reorder",
            [read1(values), read1(indices), write(emitter.output(0)), write(emitter.output(1))],
            groups=share.groups,
            local=share.local,
            push=[total, share.chunk, self.op.k, self.lines.inner],
            spec=share.spec,
            defines={"ELEM": int(not values.is_float)},
            access="storage",
        )
