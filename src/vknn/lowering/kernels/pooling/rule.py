"""MaxPool, AveragePool, GlobalAveragePool, AdaptiveMaxPool and their kin, in C4."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from vknn.graph import TensorType
from vknn.lowering.kernels.convolution.shape import Triple, moved_bytes, triple
from vknn.lowering.kernels.pooling.window import pool_window, pooling_cost, window_candidates
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_lanes,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.plan import DeviceLimits

#: Most inputs that a lane of global_shared.comp takes where there are more lanes to be had: longer
#: sums of float32 numbers one after the other lose accuracy.
MOST_INPUTS = 4096
#: On GPUs inputs that a lane takes before there are twice as many lanes, up to this number of
#: lanes: with a workgroup a vec4 of channels there are few others to hide its waits.
GPU_INPUTS, GPU_LANES = 16, 512


@lowers(MaxPool, AveragePool)
def window_pooling(problem: Problem) -> list[Candidate]:
    """Candidates: windows; also those of global pooling where the one window is the whole image."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, MaxPool | AveragePool)
    if len(op.kernel) > 3:
        return []
    window = pool_window(problem)
    whole = window.whole and (x.dtype.is_float or _takes_integers(problem))
    as_global = _global_candidates(problem) if whole else []
    return [*as_global, *window_candidates(problem, window)]


def _takes_integers(problem: Problem) -> bool:
    """True for GPUs, whose lanes are many and wait, where sums of int16 are int32 for certain."""
    return problem.limits.kind != "cpu" and math.prod(problem.input(0).dims[2:]) < 1 << 16


@lowers(GlobalAveragePool, GlobalMaxPool)
def global_pooling(problem: Problem) -> list[Candidate]:
    """Candidates: a lane or a workgroup for each vec4 of channels."""
    return _global_candidates(problem)


@lowers(AdaptiveAveragePool, AdaptiveMaxPool)
def adaptive_pooling(problem: Problem) -> list[Candidate]:
    """Candidates: a lane for each output pixel of a vec4; rows first where loops are long."""
    op = problem.op
    assert isinstance(op, AdaptiveAveragePool | AdaptiveMaxPool)
    found = _global_candidates(problem) if math.prod(op.output_size) == 1 else []
    if len(op.output_size) > 3:
        return found
    return found + _adaptive_candidates(problem, triple(op.output_size, 1))


def _global_candidates(problem: Problem) -> list[Candidate]:
    x, limits = problem.input(0), problem.limits
    total = x.dims[0] * ceil_div(x.dims[1], 4)
    pixels, moved = math.prod(x.dims[2:]), moved_bytes(problem)
    found = []
    loops = fits_loops(limits, math.prod(x.dims[2:-1]), x.dims[-1])
    if loops and fits_lanes(total, limits) and x.dtype.is_float:
        cost = pooling_cost(limits, total, 70 * pixels, pixels, moved=moved)
        found.append(_candidate("lane", _emit_lanes, cost))
    lanes = _shared_lanes(limits, pixels)
    halvings = lanes.bit_length()
    if fits(total, limits) and fits_loops(limits, ceil_div(pixels, lanes) + halvings):
        steps = ceil_div(pixels, lanes) + 4 * halvings
        cpu = limits.kind == "cpu"
        waits = ceil_div(pixels, lanes) + halvings / 2
        cost = pooling_cost(limits, total * lanes, (70 if cpu else 10) * steps, waits, moved=moved)
        found.append(_candidate("shared", _emit_shared, cost))
    return found


def _adaptive_candidates(problem: Problem, size_out: Triple) -> list[Candidate]:
    x, limits = problem.input(0), problem.limits
    size_in = triple(x.dims[2:], 1)
    sizes = _window_sizes(size_in, size_out)
    cost = pooling_cost(limits, _lanes(x, size_out), 70 * math.prod(sizes))
    if _adapts(problem, size_in, size_out):
        emit = functools.partial(_emit_adaptive, size_out=size_out)
        return [_candidate("adaptive", emit, cost)]
    middle = (*size_in[:2], size_out[2])
    many = _lanes(x, middle)
    separate = _adapts(problem, size_in, middle) and _adapts(problem, middle, size_out)
    if not separate or not fits_buffer(limits, 4 * many):
        return []
    emit = functools.partial(_emit_adaptive_rows, middle=middle, size_out=size_out)
    return [_candidate("adaptive_rows", emit, cost + pooling_cost(limits, many, 70 * sizes[2]))]


def _adapts(problem: Problem, size_in: Triple, size_out: Triple) -> bool:
    """True where one dispatch can take the windows."""
    x, limits = problem.input(0), problem.limits
    # The shader multiplies a place of the output with the input's size.
    largest = max((o + 1) * i + o for i, o in zip(size_in, size_out, strict=True))
    placed = fits_lanes(_lanes(x, size_out), limits)
    return placed and largest < 1 << 31 and fits_loops(limits, *_window_sizes(size_in, size_out))


def _window_sizes(size_in: Triple, size_out: Triple) -> list[int]:
    """Sizes of the largest windows."""
    pairs = zip(size_in, size_out, strict=True)
    return [i // o if i % o == 0 else min(i, ceil_div(i, o) + 1) for i, o in pairs]


def _candidate(name: str, emit: Callable[[Emitter], None], cost: float) -> Candidate:
    return Candidate(name, (Layout.C4,), (Layout.C4,), emit, cost)


def _lanes(x: TensorType, size_out: Triple) -> int:
    """vec4s of an output of the spatial size ``size_out``."""
    return x.dims[0] * ceil_div(x.dims[1], 4) * math.prod(size_out)


def _averages(emitter: Emitter) -> int:
    averages = (AveragePool, GlobalAveragePool, AdaptiveAveragePool)
    return int(isinstance(emitter.problem.op, averages))


def _emit_lanes(emitter: Emitter) -> None:
    x, limits = emitter.problem.input(0), emitter.problem.limits
    c4 = ceil_div(x.dims[1], 4)
    total, lanes = x.dims[0] * c4, lane_count(limits)
    rows, columns = math.prod(x.dims[2:-1]), x.dims[-1]
    emitter.dispatch(
        "pooling/global",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={"total": total, "c4": c4, "channels": x.dims[1], "rows": rows, "columns": columns},
        spec={"AVERAGE": _averages(emitter)},
        epilogue=1,
        flops=x.size,
    )


def _shared_lanes(limits: DeviceLimits, pixels: int) -> int:
    """Lanes that share an image, a power of two: the more, the larger it is."""
    lanes = 1 << (lane_count(limits).bit_length() - 1)
    most = min(limits.max_group_size[0], limits.max_group_invocations, limits.shared_memory // 16)
    if limits.kind != "cpu":
        most = min(most, GPU_LANES) if pixels <= MOST_INPUTS * GPU_LANES else most
        while pixels > GPU_INPUTS * lanes and 2 * lanes <= most:
            lanes *= 2
    while pixels > MOST_INPUTS * lanes and 2 * lanes <= most:
        lanes *= 2
    return lanes


def _emit_shared(emitter: Emitter) -> None:
    x, limits = emitter.problem.input(0), emitter.problem.limits
    c4, pixels = ceil_div(x.dims[1], 4), math.prod(x.dims[2:])
    lanes, total = _shared_lanes(limits, pixels), x.dims[0] * c4
    emitter.dispatch(
        "pooling/global_shared",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(total, limits),
        local=(lanes, 1, 1),
        push={"total": total, "c4": c4, "channels": x.dims[1], "pixels": pixels},
        spec={"AVERAGE": _averages(emitter), "LANES": lanes},
        defines={} if x.dtype.is_float else {"ELEM": 1},
        epilogue=1 if x.dtype.is_float else None,
        flops=x.size,
    )


def _emit_adaptive(emitter: Emitter, size_out: Triple) -> None:
    size_in = triple(emitter.problem.input(0).dims[2:], 1)
    _dispatch_adaptive(emitter, emitter.input(0), size_in, emitter.output(), size_out)


def _emit_adaptive_rows(emitter: Emitter, middle: Triple, size_out: Triple) -> None:
    """Windows within rows first, then across rows: all rows of a window have as many inputs."""
    x = emitter.problem.input(0)
    size_in = triple(x.dims[2:], 1)
    rows = emitter.scratch("rows", 4 * _lanes(x, middle), as_tensor=True)
    _dispatch_adaptive(emitter, emitter.input(0), size_in, rows, middle, epilogue=False)
    _dispatch_adaptive(emitter, rows, middle, emitter.output(), size_out)


def _dispatch_adaptive(
    emitter: Emitter, x: Ref, size_in: Triple, y: Ref, size_out: Triple, *, epilogue: bool = True
) -> None:
    source, limits = emitter.problem.input(0), emitter.problem.limits
    total, lanes = _lanes(source, size_out), lane_count(limits)
    emitter.dispatch(
        "pooling/adaptive",
        [read4(x), write(y)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "total": total,
            "c4": ceil_div(source.dims[1], 4),
            "channels": source.dims[1],
            **by_axis("in", size_in),
            **by_axis("out", size_out),
        },
        spec={"AVERAGE": _averages(emitter)},
        epilogue=1,
        with_steps=epilogue,
        flops=4 * source.dims[0] * ceil_div(source.dims[1], 4) * math.prod(size_in),
    )
