"""Depthwise convolution (shaders/convolution/depthwise.comp)."""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.convolution_shape import ConvShape, constant_weights, input_layouts
from vknn.lowering.emitter import Emitter, ceil_div, read4, write
from vknn.lowering.grids import (
    CPU_GROUP_COST,
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.lowering.layouts import Layout
from vknn.lowering.registry import DISPATCH_COST, Candidate, Problem

#: Most inputs that a lane keeps of a row; a longer reach costs more than it saves.
MOST_SPAN = 40


def depthwise_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """Candidates of one to eight pixels a lane; none with run-time weights or a depth axis."""
    if not shape.is_depthwise or shape.has_depth or constant_weights(problem) is None:
        return []
    widths = [width for width in (8, 7, 4, 2, 1) if _span(shape, width) <= MOST_SPAN]
    return [_candidate(problem, shape, w) for w in widths if _fits(problem, shape, w)]


def _candidate(problem: Problem, shape: ConvShape, width: int) -> Candidate:
    emit = functools.partial(_emit, shape=shape, width=width)
    cost = _cost(problem, shape, width)
    return Candidate(f"depthwise{width}", input_layouts(problem), (Layout.C4,), emit, cost)


def _span(shape: ConvShape, width: int) -> int:
    return (width - 1) * shape.strides[2] + (shape.kernel[2] - 1) * shape.dilations[2] + 1


def _lanes(shape: ConvShape, width: int) -> int:
    tiles = ceil_div(shape.size_out[2], width)
    return shape.batch * shape.c4 * shape.size_out[1] * tiles


def _fits(problem: Problem, shape: ConvShape, width: int) -> bool:
    limits = problem.limits
    groups = ceil_div(_lanes(shape, width), lane_count(limits))
    packed = 4 * shape.c4 * (shape.taps + 1)
    return (
        fits(groups, limits) and fits_loops(limits, shape.kernel[1]) and fits_buffer(limits, packed)
    )


def _cost(problem: Problem, shape: ConvShape, width: int) -> float:
    rows, columns = shape.kernel[1:]
    reads = min(_span(shape, width), width * columns) + columns
    lanes = _lanes(shape, width)
    if problem.limits.kind == "cpu":
        # Vector instructions: 55 a load, 6 a product of vec4s; 60 a pixel for its store.
        work = rows * (55 * reads + 6 * width * columns) + 60 * width + 150
        groups = ceil_div(lanes, lane_count(problem.limits))
        return DISPATCH_COST + groups * (CPU_GROUP_COST + work * 1.5e-4) / 2
    waves = max(1.0, lanes / 16384)
    return DISPATCH_COST + waves * rows * (8 * reads + 4 * width * columns) * 2e-4


def _emit(emitter: Emitter, shape: ConvShape, width: int) -> None:
    sources = constant_weights(emitter.problem)
    assert sources is not None
    weights = emitter.weight("depthwise", lambda: pack_depthwise(*sources), *sources)
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    total = _lanes(shape, width)
    push = [total, ceil_div(shape.size_out[2], width), shape.c4, shape.channels_out]
    push += [*shape.size_in[1:], *shape.size_out[1:]]
    push += [shape.kernel[1], shape.strides[1], shape.dilations[1], *shape.pads[1:]]
    integer = not emitter.output().is_float
    emitter.dispatch(
        "convolution/depthwise",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[*push, shape.c4 * shape.taps],
        spec={10: width, 11: shape.kernel[2], 12: shape.strides[2], 13: shape.dilations[2]},
        defines={"ELEM": int(integer)},
        epilogue=None if integer else 1,
        flops=shape.flops,
    )


def pack_depthwise(w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """[c4][tap] vec4s of channels, then the bias [c4]; missing channels are 0."""
    dtype = np.float32 if w.dtype.kind == "f" else np.int32
    channels, taps = w.shape[0], int(np.prod(w.shape[2:]))
    c4 = ceil_div(channels, 4)
    padded = np.zeros((4 * c4, taps + 1), dtype)
    padded[:channels, :taps] = w.reshape(channels, taps)
    if bias is not None:
        padded[:channels, taps] = bias
    vectors = padded.reshape(c4, 4, taps + 1).transpose(0, 2, 1)
    return np.concatenate([vectors[:, :taps].ravel(), vectors[:, taps].ravel()])
