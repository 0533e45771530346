"""Lowering of pooling: windows, global and adaptive, in C4."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.convolution_shape import triple
from vknn.lowering.emitter import Emitter, ceil_div, read4, write
from vknn.lowering.grids import CPU_GROUP_COST, fits, lane_count, spread
from vknn.lowering.layouts import Layout
from vknn.lowering.registry import DISPATCH_COST, Candidate, Problem, lowers
from vknn.ops.pooling import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.plan import DeviceLimits

#: Widest window (along a row) and most inputs of a row that a lane keeps in registers.
WIDEST_KERNEL = 8
MOST_SPAN = 24


@lowers(MaxPool, AveragePool)
def windowed(problem: Problem) -> list[Candidate]:
    """Lanes of one to four pixels; wide windows one pixel a lane."""
    op, limits = problem.op, problem.limits
    assert isinstance(op, MaxPool | AveragePool)
    if len(op.kernel) > 3:
        return []
    found = []
    for width in (4, 2, 1):
        unrolled = op.kernel[-1] <= WIDEST_KERNEL and _span(op, width) <= MOST_SPAN
        lanes = _window_lanes(problem.outputs[0], width)
        if (unrolled or width == 1) and fits(ceil_div(lanes, lane_count(limits)), limits):
            emit = functools.partial(_emit_window, width=width, unrolled=unrolled)
            reads = math.prod(op.kernel[:-1]) * (_span(op, width) if unrolled else op.kernel[-1])
            cost = _cost(limits, lanes, 70 * reads + 60 * width + 150)
            found.append(_candidate(f"window{width}", emit, cost))
    return found


@lowers(GlobalAveragePool, GlobalMaxPool)
def whole(problem: Problem) -> list[Candidate]:
    """A lane or a workgroup for each vec4 of channels."""
    x, limits = _input(problem), problem.limits
    total = x.dims[0] * ceil_div(x.dims[1], 4)
    pixels = math.prod(x.dims[2:])
    found = []
    if fits(ceil_div(total, lane_count(limits)), limits):
        cost = _cost(limits, total, 70 * pixels)
        found.append(_candidate("lane", _emit_lanes, cost))
    lanes = _shared_lanes(limits)
    if fits(total, limits):
        steps = ceil_div(pixels, lanes) + 4 * int(math.log2(lanes))
        found.append(_candidate("shared", _emit_shared, _cost(limits, total * lanes, 70 * steps)))
    return found


@lowers(AdaptiveAveragePool, AdaptiveMaxPool)
def adaptive(problem: Problem) -> list[Candidate]:
    """A lane for each output pixel of a vec4 of channels."""
    op, limits = problem.op, problem.limits
    assert isinstance(op, AdaptiveAveragePool | AdaptiveMaxPool)
    lanes = _window_lanes(problem.outputs[0], 1)
    if len(op.output_size) > 3 or not fits(ceil_div(lanes, lane_count(limits)), limits):
        return []
    x, y = _input(problem), problem.outputs[0]
    reads = math.prod(ceil_div(a, b) + 1 for a, b in zip(x.dims[2:], y.dims[2:], strict=True))
    return [_candidate("adaptive", _emit_adaptive, _cost(limits, lanes, 70 * reads))]


def _candidate(name: str, emit: Callable[[Emitter], None], cost: float) -> Candidate:
    return Candidate(name, (Layout.C4,), (Layout.C4,), emit, cost)


def _input(problem: Problem) -> TensorType:
    x = problem.inputs[0]
    assert x is not None
    return x


def _cost(limits: DeviceLimits, lanes: int, instructions: int) -> float:
    """Microseconds of so many lanes, each of so many instructions."""
    if limits.kind == "cpu":
        groups = ceil_div(lanes, lane_count(limits))
        return DISPATCH_COST + groups * (CPU_GROUP_COST + instructions * 1.5e-4) / 2
    return DISPATCH_COST + max(1.0, lanes / 16384) * instructions * 2e-4


def _span(op: MaxPool | AveragePool, width: int) -> int:
    dilation = _dilations(op)[-1]
    return (width - 1) * op.strides[-1] + (op.kernel[-1] - 1) * dilation + 1


def _dilations(op: MaxPool | AveragePool) -> tuple[int, ...]:
    found = op.dilations if isinstance(op, MaxPool) else None
    return found or (1,) * len(op.kernel)


def _window_lanes(y: TensorType, width: int) -> int:
    n, c, *spatial, columns = y.dims
    return n * ceil_div(c, 4) * math.prod(spatial) * ceil_div(columns, width)


def _averages(emitter: Emitter) -> int:
    averages = (AveragePool, GlobalAveragePool, AdaptiveAveragePool)
    return int(isinstance(emitter.problem.op, averages))


def _emit_window(emitter: Emitter, width: int, unrolled: bool) -> None:
    op, x, y = emitter.problem.op, _input(emitter.problem), emitter.problem.outputs[0]
    assert isinstance(op, MaxPool | AveragePool)
    axes, limits = len(op.kernel), emitter.problem.limits
    kernel, strides = triple(op.kernel, 1), triple(op.strides, 1)
    dilations, pads = triple(_dilations(op), 1), triple(op.pads[:axes], 0)
    lanes, total = lane_count(limits), _window_lanes(y, width)
    is_float = x.dtype.is_float
    push: list[int | float] = [total, ceil_div(y.dims[-1], width), ceil_div(x.dims[1], 4)]
    push += [x.dims[1], *triple(x.dims[2:], 1), *triple(y.dims[2:], 1), *kernel]
    push += [*strides[:2], *dilations[:2], *pads, _lowest(x)]
    count_padding = isinstance(op, AveragePool) and op.count_include_pad
    emitter.dispatch(
        "pooling/window",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=push,
        spec={
            10: _averages(emitter),
            11: int(count_padding),
            12: width,
            13: kernel[2] if unrolled else 0,
            14: strides[2],
            15: dilations[2],
        },
        defines={"ELEM": int(not is_float)},
        epilogue=1 if is_float else None,
        flops=y.size * math.prod(kernel),
    )


def _lowest(x: TensorType) -> int | float:
    """What MaxPool's padding holds: the lowest finite number of the host's dtype."""
    if x.dtype.is_float:
        return float(np.finfo(x.dtype.numpy).min)
    return int(np.iinfo(x.dtype.numpy).min)


def _emit_lanes(emitter: Emitter) -> None:
    x, limits = _input(emitter.problem), emitter.problem.limits
    c4 = ceil_div(x.dims[1], 4)
    total, lanes = x.dims[0] * c4, lane_count(limits)
    rows, columns = math.prod(x.dims[2:-1]), x.dims[-1]
    emitter.dispatch(
        "pooling/global",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[total, c4, x.dims[1], rows, columns],
        spec={10: _averages(emitter)},
        epilogue=1,
        flops=x.size,
    )


def _shared_lanes(limits: DeviceLimits) -> int:
    """A power of two."""
    return 1 << (lane_count(limits).bit_length() - 1)


def _emit_shared(emitter: Emitter) -> None:
    x, limits = _input(emitter.problem), emitter.problem.limits
    c4, lanes = ceil_div(x.dims[1], 4), _shared_lanes(limits)
    total = x.dims[0] * c4
    emitter.dispatch(
        "pooling/global_shared",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(total, limits),
        local=(lanes, 1, 1),
        push=[total, c4, x.dims[1], math.prod(x.dims[2:])],
        spec={10: _averages(emitter), 11: lanes},
        epilogue=1,
        flops=x.size,
    )


def _emit_adaptive(emitter: Emitter) -> None:
    x, y, limits = _input(emitter.problem), emitter.problem.outputs[0], emitter.problem.limits
    total, lanes = _window_lanes(y, 1), lane_count(limits)
    sizes = [*triple(x.dims[2:], 1), *triple(y.dims[2:], 1)]
    emitter.dispatch(
        "pooling/adaptive",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[total, ceil_div(x.dims[1], 4), x.dims[1], *sizes],
        spec={10: _averages(emitter)},
        epilogue=1,
        flops=x.size,
    )
