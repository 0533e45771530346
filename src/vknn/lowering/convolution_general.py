"""Convolution in any groups, weights in the model's order (shaders/convolution/general.comp)."""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.convolution_shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
)
from vknn.lowering.emitter import Emitter, Ref, ceil_div, read1, write
from vknn.lowering.grids import fits, lane_count, spread
from vknn.lowering.layouts import Layout
from vknn.lowering.registry import DISPATCH_COST, Candidate, Problem


def general_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """The slow form that takes every convolution."""
    total, limits = shape.batch * shape.m4 * shape.pixels, problem.limits
    rounds = 5 + 4 * (1 + shape.group_in * (1 + shape.taps))
    if rounds > limits.max_loop_rounds or not fits(ceil_div(total, lane_count(limits)), limits):
        return []
    emit = functools.partial(_emit, shape=shape)
    # A product needs two scalar reads with their addresses and bounds.
    cost = 2 * DISPATCH_COST + shape.flops * (5e-4 if limits.kind == "cpu" else 4e-5)
    return [Candidate("general", input_layouts(problem), (Layout.C4,), emit, cost)]


def _emit(emitter: Emitter, shape: ConvShape) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    weights = _constant(emitter) or _joined(emitter)
    total = shape.batch * shape.m4 * shape.pixels
    push = [shape.pixels, total, shape.c4, shape.m4, shape.channels_out]
    push += [shape.group_in, shape.group_out, *shape.size_in, *shape.size_out[1:]]
    count = shape.channels_out * shape.group_in * shape.taps
    integer = not emitter.output().is_float
    emitter.dispatch(
        "convolution/general",
        [read1(emitter.input(0)), read1(weights), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[*push, *shape.geometry(), count],
        spec={10: int(has_bias(emitter.problem))},
        defines={"ELEM": int(integer)},
        epilogue=None if integer else 1,
        flops=shape.flops,
    )


def _constant(emitter: Emitter) -> Ref | None:
    sources = constant_weights(emitter.problem)
    if sources is None:
        return None
    dtype = np.float32 if emitter.output().is_float else np.int32
    return emitter.weight(
        "general", lambda: np.concatenate([s.ravel() for s in sources]).astype(dtype), *sources
    )


def _joined(emitter: Emitter) -> Ref:
    """Run-time weights with the bias behind them, in one buffer (a shader has few bindings)."""
    w, types = emitter.input(1), emitter.problem.inputs
    if not has_bias(emitter.problem):
        return w
    assert types[1] is not None and types[2] is not None
    bias, count, extra = emitter.input(2), types[1].size, types[2].size
    joined = emitter.scratch("weights", count + extra, dtype=types[1].dtype)
    emitter.copy(w, joined, 4 * count)
    emitter.copy(bias, joined, 4 * extra, 0, 4 * count)
    return joined
