"""Movement operators: views where the bytes stay, copies where they are in a row, else gathers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.movement.concat import concat_candidates
from vknn.lowering.kernels.movement.gather import (
    GatherAxis,
    GatherMap,
    can_gather,
    gather,
    in_vectors,
    is_wide,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    ceil_div,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.movement import shape as ops

#: A scalar at a time costs about this many times what whole vec4s cost.
SCALAR_PENALTY = 3.0


def repack(
    emitter: Emitter,
    source: Ref,
    target: Ref,
    type_: TensorType,
    source_layout: Layout,
    target_layout: Layout,
) -> None:
    """One command that brings a tensor of rank 2 or more from one layout to the other.

    Beside C4 of float16 the row-major side may be float32: an input or output of the plan.
    """
    if source_layout is target_layout:
        emitter.copy(source, target, min(source.nbytes, target.nbytes))
        return
    if Layout.LINEAR not in (source_layout, target_layout):
        _repack_bytes(emitter, source, target, type_)
        return
    n, channels, *rest = type_.dims
    spatial, blocks = math.prod(rest), ceil_div(channels, 4)
    wide, packs = spatial % 4 == 0, source_layout is Layout.LINEAR
    vectors = n * blocks * (spatial // 4 if wide else spatial)
    count = vectors if wide or packs else ceil_div(type_.size, 4)
    push = {
        "count": count,
        "channels": channels,
        "channels4": blocks,
        "spatial": spatial,
    }
    in_bytes = source.is_bytes or target.is_bytes
    emitter.dispatch_items(
        "movement/pack" if packs else "movement/unpack",
        [read4(source) if wide or source.is_bytes else read1(source), write(target)],
        grid(emitter.problem.limits, count, type_.size),
        push=push if packs else push | {"last": n - 1},
        spec=_signedness(type_) if in_bytes else None,
        defines={
            "ELEM": int(not target.is_float),
            "WIDE": int(wide),
            **({"BYTES": 1} if in_bytes else {}),
            **({"SINGLE": 1} if source.half != target.half else {}),
        },
    )


def convert(emitter: Emitter, source: Ref, target: Ref, count: int) -> None:
    """One dispatch that brings ``count`` vec4s of floats from 32 bits to 16, or back."""
    emitter.dispatch_items(
        "movement/convert",
        [read4(source), write(target)],
        grid(emitter.problem.limits, count),
        push={"count": count},
        defines={"WIDENS": int(source.half)},
    )


def _signedness(type_: TensorType) -> dict[str, int]:
    """Specialization constant that tells uint8 from int8."""
    return {"BYTES_UNSIGNED": int(type_.dtype is DType.UINT8)}


def _repack_bytes(emitter: Emitter, source: Ref, target: Ref, type_: TensorType) -> None:
    """Vec4s of integers as words of four bytes, or back."""
    count = vector_count(type_, Layout.C4)
    emitter.dispatch_items(
        "movement/bytes",
        [read4(source), write(target)],
        grid(emitter.problem.limits, count),
        push={"count": count},
        spec=_signedness(type_),
        defines={"TO_BYTES": int(target.is_bytes)},
    )


@lowers(ops.Identity, ops.Reshape)
def reshape(problem: Problem) -> Sequence[Candidate]:
    """Views: row-major order stays; in C4 it does where batch and channels do."""
    return view_candidates(problem)


@lowers(ops.Expand)
def expand(problem: Problem) -> Sequence[Candidate]:
    """A view where no axis grows, else a gather whose grown axes stay in place."""
    x, (y,) = problem.input(0), problem.outputs
    if x.size == y.size:
        return view_candidates(problem)
    lead = y.rank - x.rank
    axes = [GatherAxis(size, None) for size in y.dims[:lead]]
    for axis, size in enumerate(y.dims[lead:]):
        axes.append(GatherAxis(size, axis, step=int(x.dims[axis] == size)))
    return gather_candidates(problem, GatherMap(x, y, tuple(axes)))


@lowers(ops.Transpose)
def transpose(problem: Problem) -> Sequence[Candidate]:
    """A view where only axes of size 1 move, else a gather."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.Transpose)
    views = []
    order = [p for p in op.perm if x.dims[p] != 1]
    if order == sorted(order):
        both = op.perm[:2] == (0, 1)
        views = [c for c in view_candidates(problem) if both or c.outputs[0] is Layout.LINEAR]
    axes = tuple(GatherAxis(size, p) for size, p in zip(y.dims, op.perm, strict=True))
    return [*views, *gather_candidates(problem, GatherMap(x, y, axes))]


@lowers(ops.Slice)
def slice_(problem: Problem) -> Sequence[Candidate]:
    """Views of what lies in a row; other slices are gathered."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.Slice)
    ranges = op.ranges(x.rank)
    axes = []
    for axis, size in enumerate(x.dims):
        start, _, step = ranges.get(axis, slice(None)).indices(size)
        axes.append(GatherAxis(y.dims[axis], axis, start, step if y.dims[axis] > 1 else 1))
    views = []
    for layout in PLAIN:
        place = _row_start(x, axes, layout) if allows(x, layout) else None
        if place is not None:
            views.append(_view(problem, layout, problem.element_bytes(x) * place))
    return [*views, *gather_candidates(problem, GatherMap(x, y, tuple(axes)))]


@lowers(ops.Pad)
def pad(problem: Problem) -> Sequence[Candidate]:
    """A gather whose places outside the input follow the mode; a view without any pads."""
    x, values = (*problem.inputs, None)[:2]
    (y,), op = problem.outputs, problem.op
    assert x is not None and isinstance(op, ops.Pad)
    rank = x.rank
    if not any(op.pads):
        absent = (None,) * (len(problem.inputs) - 1)
        return [replace(c, inputs=(*c.inputs, *absent)) for c in view_candidates(problem)]
    axes = []
    for axis, size in enumerate(y.dims):
        before, after = op.pads[axis], op.pads[axis + rank]
        axes.append(GatherAxis(size, axis, -before, padded=before + after > 0))
    what = GatherMap(x, y, tuple(axes), op.mode, op.value)
    return gather_candidates(problem, what, None if values is None else Layout.LINEAR)


@lowers(ops.Concat)
def concat(problem: Problem) -> Sequence[Candidate]:
    """Parts in place, copies, or a dispatch for each input (see the module ``concat``)."""
    return concat_candidates(problem)


@lowers(ops.ChannelShuffle)
def channel_shuffle(problem: Problem) -> Sequence[Candidate]:
    """A transpose of [group, C / group] in LINEAR, a gather by lanes in C4."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ops.ChannelShuffle)
    n, channels, *rest = x.dims
    if op.group in (1, channels):
        return view_candidates(problem)
    per, spatial = channels // op.group, math.prod(rest)
    seen = GatherMap(
        x.with_shape((n, op.group, per, spatial)),
        x.with_shape((n, per, op.group, spatial)),
        (GatherAxis(n, 0), GatherAxis(per, 2), GatherAxis(op.group, 1), GatherAxis(spatial, 3)),
    )
    blocks = GatherMap(
        x, y, tuple(GatherAxis(s, a) for a, s in enumerate(x.dims)), shuffle=op.group
    )
    pairs = op.group == 2 and per % 2 == 0
    return [
        _candidate(problem, seen, Layout.LINEAR, Layout.LINEAR),
        _interleave(problem, x) if pairs else _candidate(problem, blocks, Layout.C4, Layout.C4),
    ]


def _interleave(problem: Problem, x: TensorType) -> Candidate:
    """The channels of two halves in turn, in C4."""
    emit = functools.partial(_emit_interleave, x=x)
    machine = problem.machine
    cost = machine.dispatch + 2 * storage_bytes(x, Layout.C4) * machine.byte
    return Candidate("interleave_c4", (Layout.C4,), (Layout.C4,), emit, cost)


def _emit_interleave(emitter: Emitter, x: TensorType) -> None:
    n, channels, *rest = x.dims
    spatial, blocks = math.prod(rest), ceil_div(channels, 4)
    target = emitter.output()
    emitter.dispatch_items(
        "movement/interleave",
        [read4(emitter.input(0)), write(target)],
        grid(emitter.problem.limits, n * blocks * spatial),
        push={
            "count": n * blocks * spatial,
            "spatial": spatial,
            "blocks": blocks,
            "channels": channels,
        },
        defines={"ELEM": int(not target.is_float)},
    )


def view_candidates(problem: Problem) -> list[Candidate]:
    """Views of the input as the output, which has its elements in the same row-major order."""
    x, (y,) = problem.input(0), problem.outputs
    found = [_view(problem, Layout.LINEAR)]
    if x.rank >= 2 and y.rank >= 2 and x.dims[:2] == y.dims[:2]:
        found.append(_view(problem, Layout.C4))
    return found


def _view(problem: Problem, layout: Layout, offset: int = 0) -> Candidate:
    """The output's bytes lie in the input's: a view where the device can bind it, else a copy."""
    x, (y,), half = problem.input(0), problem.outputs, problem.options.half
    whole, nbytes = storage_bytes(x, layout, half), storage_bytes(y, layout, half)
    able = offset % problem.limits.alignment == 0 and offset + nbytes <= whole
    emit = functools.partial(_emit_copy, offset=offset)
    name = f"view_{layout.value}"
    if able:
        return Candidate(name, (layout,), (layout,), emit, view=0, view_offset=offset)
    machine = problem.machine
    return Candidate(name, (layout,), (layout,), emit, machine.copy + 2 * nbytes * machine.byte)


def _emit_copy(emitter: Emitter, offset: int) -> None:
    source, target = emitter.input(0), emitter.output()
    length = min(source.nbytes - offset, target.nbytes)
    emitter.copy(source, target, length, source_offset=offset)


def _row_start(x: TensorType, axes: Sequence[GatherAxis], layout: Layout) -> int | None:
    """Element at which a contiguous slice begins in the buffer; None where it is not one."""
    cut = [a for a, axis in enumerate(axes) if axis.size != x.dims[a]]
    if not cut:
        return 0 if all(axis.step == 1 for axis in axes) else None
    if len(cut) > 1 or any(axis.step != 1 for axis in axes):
        return None
    (axis,) = cut
    dims = list(x.dims)
    start, end = axes[axis].start, axes[axis].start + axes[axis].size
    if layout is Layout.LINEAR:
        outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
        return start * inner if outer == 1 else None
    blocks, spatial = ceil_div(dims[1], 4), math.prod(dims[2:])
    if axis == 0:
        return start * blocks * spatial * 4
    if axis == 1:
        whole = start % 4 == 0 and (end % 4 == 0 or end == dims[1])
        return start * spatial if whole and dims[0] == 1 else None
    outer = dims[0] * blocks * math.prod(dims[2:axis])
    return start * math.prod(dims[axis + 1 :]) * 4 if outer == 1 else None


def gather_candidates(
    problem: Problem, what: GatherMap, values: Layout | None = None
) -> list[Candidate]:
    """Candidates for every pair of layouts. ``values``: the layout of a second input."""
    return [
        _candidate(problem, what, source, target, values)
        for source, target in itertools.product((*PLAIN, Layout.C4B), PLAIN)
        if allows(what.input, source)
        and allows(what.output, target)
        and can_gather(what, in_vectors(source), target)
    ]


def _candidate(
    problem: Problem,
    what: GatherMap,
    source: Layout,
    target: Layout,
    values: Layout | None = None,
) -> Candidate:
    machine, seen = problem.machine, in_vectors(source)
    moved = storage_bytes(what.output, target) * machine.byte * 2
    cost = machine.dispatch + moved * (1.0 if is_wide(what, seen, target) else SCALAR_PENALTY)
    name = f"gather_{source.value}_{target.value}"
    inputs = (source,) if values is None else (source, values)
    emit = functools.partial(_emit_gather, what=what, source=seen, target=target)
    return Candidate(name, inputs, (target,), emit, cost)


def _emit_gather(emitter: Emitter, what: GatherMap, source: Layout, target: Layout) -> None:
    values = emitter.inputs[1] if len(emitter.inputs) > 1 else None
    gather(emitter, what, source, target, values)
