"""ArgMax, ArgMin and TopK along an axis.

TopK has three ways to find the elements: "rank" (each element counts those before it), "pick" (the
best of what is left, k times), "merge" (a merge sort).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.reduction.axis_rows import AxisRows, side_by_side
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, rounds, spread
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.plan import DeviceLimits

#: Shared memory of a lane of arg_extreme.comp: a vec4 and its places.
_SHARED_BYTES = 32
#: Elements of the runs that a merge sort begins with.
_RUN = 32
#: Floating point operations of a comparison of two elements.
_COMPARISON = 8


#: Emits one way to find the elements into buffers of values and indices.
_Find = Callable[[Emitter, AxisRows, Ref, Ref], None]


@lowers(ArgMax, ArgMin)
def arg_extremes(problem: Problem) -> Sequence[Candidate]:
    """Candidates: the lanes of a row compare what they have found."""
    op, x, limits = problem.op, problem.input(0), problem.limits
    assert isinstance(op, ArgMax | ArgMin)
    axis, found = op.axis % x.rank, []
    machine = problem.machine
    for layout in PLAIN:
        rows = side_by_side(x, axis, layout)
        # Without its axis 0 a tensor has its channels elsewhere.
        if rows is None or (layout is Layout.C4 and axis == 0 and not op.keepdims):
            continue
        shape = row_shape(rows.rows, rows.count, limits, apart=rows.inner > 1)
        shared = _SHARED_BYTES * shape.lanes * shape.rows
        room = shape.lanes == 1 or shared <= limits.shared_memory
        if room and shape.fits(rows.rows, rows.count, limits):
            emit = functools.partial(_emit_extreme, rows=rows, shape=shape, layout=layout)
            cost = machine.dispatch + storage_bytes(x, layout) * machine.byte
            cost += x.size * _COMPARISON * machine.flop
            cost += machine.latency * rows.count / shape.lanes
            found.append(Candidate(f"lines_{layout.value}", (layout,), (layout,), emit, cost))
    return found


def _emit_extreme(emitter: Emitter, rows: AxisRows, shape: RowShape, layout: Layout) -> None:
    op, type_, x = emitter.problem.op, emitter.problem.input(0), emitter.input(0)
    assert isinstance(op, ArgMax | ArgMin)
    plane, channels = 1, 1
    if layout is Layout.C4:
        plane, channels = math.prod(type_.dims[2:]), type_.dims[1]
    emitter.dispatch(
        "indexing/arg_extreme",
        [rows.read(x), write(emitter.output())],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={
            **rows.push(),
            "plane": plane,
            "blocks": ceil_div(channels, 4),
            "channels": channels,
        },
        spec={
            **shape.spec,
            "LARGEST": int(op.largest),
            "LAST": int(op.select_last),
            "PADDING_LANES": int(layout is Layout.C4 and channels % 4 != 0),
            "NAN_LAST": int(op.nan_last),
        },
        defines={"WIDE": int(rows.wide), "ELEM": int(not x.is_float)},
        access=None if x.is_float else "storage",
        flops=type_.size,
    )


@lowers(TopK)
def top_k(problem: Problem) -> Sequence[Candidate]:
    """Candidates: one for each way to find the elements for which the device has room."""
    op, x, limits = problem.op, problem.input(0), problem.limits
    assert isinstance(op, TopK)
    axis = op.axis % x.rank
    count, inner = x.dims[axis], math.prod(x.dims[axis + 1 :])
    rows = AxisRows(x.size // max(1, count), count, inner, False)
    if not op.sorted and not fits_loops(limits, op.k):
        return []
    machine = problem.machine
    base = (1 if op.sorted else 2) * machine.dispatch + x.size * 4 * machine.byte
    comparisons = x.size * _COMPARISON * machine.flop
    found = []
    if fits_loops(limits, ceil_div(count, 4) + 1):
        cost = base + count * comparisons
        found.append(_top("rank", _emit_rank, rows, cost))
    lanes = _picking_lanes(op.k, count, limits)
    if lanes is not None and fits(rows.rows, limits):
        waiting = op.k * ceil_div(count, lanes) * (0.0 if limits.kind == "cpu" else machine.latency)
        cost = base + op.k * comparisons + waiting + op.k * rows.rows * 0.01
        found.append(_top("pick", functools.partial(_emit_pick, lanes=lanes), rows, cost))
    if count > _RUN and fits_loops(limits, max(_RUN, count.bit_length() + 1)):
        runs = _merged_runs(count)
        looks = _RUN + sum(run.bit_length() for run in runs)
        cost = base + len(runs) * (machine.dispatch + 16 * x.size * machine.byte)
        found.append(_top("merge", _emit_merge, rows, cost + looks * comparisons))
    return found


def _top(name: str, find: _Find, rows: AxisRows, cost: float) -> Candidate:
    emit = functools.partial(_emit_top, find=find, rows=rows)
    return Candidate(name, (Layout.LINEAR,), (Layout.LINEAR,) * 2, emit, cost)


def _merged_runs(count: int) -> list[int]:
    """The lengths of the runs that each pass behind the first merges."""
    runs = [_RUN]
    while 2 * runs[-1] < count:
        runs.append(2 * runs[-1])
    return runs


def _picking_lanes(k: int, count: int, limits: DeviceLimits) -> int | None:
    """Lanes of a row, a power of two; None where a device cannot have enough of them."""
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


def _top_k(emitter: Emitter) -> tuple[TopK, TensorType]:
    """The op and the type of its input."""
    op, x = emitter.problem.op, emitter.problem.input(0)
    assert isinstance(op, TopK)
    return op, x


def _emit_top(emitter: Emitter, find: _Find, rows: AxisRows) -> None:
    """The elements in the order of their values; where that is not asked for, of their indices."""
    op, _ = _top_k(emitter)
    if op.sorted:
        find(emitter, rows, emitter.output(0), emitter.output(1))
        return
    type_ = emitter.problem.outputs[0]
    values = emitter.scratch("values", type_.size, dtype=type_.dtype, as_tensor=True)
    indices = emitter.scratch("indices", type_.size, dtype=DType.INT32)
    find(emitter, rows, values, indices)
    _emit_reorder(emitter, rows, values, indices)


def _emit_rank(emitter: Emitter, rows: AxisRows, values: Ref, indices: Ref) -> None:
    (op, type_), x = _top_k(emitter), emitter.input(0)
    item_rounds = rounds(ceil_div(rows.count, 4))
    emitter.dispatch_items(
        "indexing/topk_rank",
        [read1(x), write(values), write(indices)],
        grid(emitter.problem.limits, type_.size, item_rounds=item_rounds),
        push={"total": type_.size, "count": rows.count, "inner": rows.inner, "k": op.k},
        spec={"LARGEST": int(op.largest)},
        defines={"ELEM": int(not x.is_float)},
        access=None if x.is_float else "storage",
        flops=type_.size * rows.count,
    )


def _emit_pick(emitter: Emitter, rows: AxisRows, values: Ref, indices: Ref, lanes: int) -> None:
    (op, type_), x = _top_k(emitter), emitter.input(0)
    emitter.dispatch(
        "indexing/topk_pick",
        [read1(x), write(values), write(indices)],
        groups=spread(rows.rows, emitter.problem.limits),
        local=(lanes, 1, 1),
        push={**rows.push(), "k": op.k},
        spec={"LANES": lanes, "LARGEST": int(op.largest)},
        defines={"ELEM": int(not x.is_float)},
        access=None if x.is_float else "storage",
        flops=type_.size * op.k,
    )


def _emit_merge(emitter: Emitter, rows: AxisRows, values: Ref, indices: Ref) -> None:
    op, x = _top_k(emitter)
    runs = _merged_runs(rows.count)
    pairs = []
    for number in range(min(2, len(runs))):
        kept = emitter.scratch(f"values{number}", x.size, dtype=x.dtype, as_tensor=True)
        pairs.append((kept, emitter.scratch(f"indices{number}", x.size, dtype=DType.INT32)))
    _emit_merge_pass(emitter, rows, (emitter.input(0),), pairs[0], _RUN, rows.count)
    for number, run in enumerate(runs):
        last = number == len(runs) - 1
        target = (values, indices) if last else pairs[(number + 1) % 2]
        k = op.k if last else rows.count
        _emit_merge_pass(emitter, rows, pairs[number % 2], target, run, k)


def _emit_merge_pass(
    emitter: Emitter, rows: AxisRows, source: Sequence[Ref], target: Sequence[Ref], run: int, k: int
) -> None:
    """A pass of the merge sort; the first one has no indices in its source, and sorts runs."""
    (op, x), first = _top_k(emitter), len(source) == 1
    looks = run if first else run.bit_length() + 1
    emitter.dispatch_items(
        "indexing/topk_merge",
        [*map(read1, source), *map(write, target)],
        grid(emitter.problem.limits, x.size, item_rounds=rounds(looks)),
        push={"total": x.size, "count": rows.count, "inner": rows.inner, "k": k, "run": run},
        spec={"LARGEST": int(op.largest)},
        defines={"ELEM": int(not source[0].is_float), "FIRST": int(first)},
        access="storage",
        flops=x.size * looks,
    )


def _emit_reorder(emitter: Emitter, rows: AxisRows, values: Ref, indices: Ref) -> None:
    op, _ = _top_k(emitter)
    total = emitter.problem.outputs[0].size
    emitter.dispatch_items(
        "indexing/topk_reorder",
        [read1(values), read1(indices), write(emitter.output(0)), write(emitter.output(1))],
        grid(emitter.problem.limits, total, item_rounds=rounds(op.k)),
        push={"total": total, "k": op.k, "inner": rows.inner},
        defines={"ELEM": int(not values.is_float)},
        access="storage",
    )
