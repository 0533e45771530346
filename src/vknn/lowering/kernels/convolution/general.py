"""Convolution in any groups, weights in the model's order (shaders/convolution/general.comp)."""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
    moved_bytes,
)
from vknn.lowering.kernels.quantized.requantize import is_quantized
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, update, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_buffer, fits_lanes, lane_count, rounds, spread
from vknn.plan import DeviceLimits

#: Multiply-adds of a GPU's lane that a product takes as long as: two scalar reads, their addresses
#: and bounds.
_PRODUCT = 25


def general_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """One slow candidate for every convolution of floats or plain integers."""
    if is_quantized(problem):
        return []
    limits = problem.limits
    total = shape.batch * shape.m4 * shape.pixels
    weights = shape.channels_out * (shape.group_in * shape.taps + int(has_bias(problem)))
    placed = fits_lanes(total, limits) and fits_buffer(limits, weights)
    most = _most_channels(shape, limits)
    # Sums of one dispatch are in y for the next: float16 would round them.
    in_parts = most < shape.group_in and problem.options.half and problem.outputs[0].dtype.is_float
    if not placed or not most or in_parts:
        return []
    emit = functools.partial(_emit, shape=shape)
    machine = problem.machine
    if limits.kind == "cpu":
        cost = 25 * shape.flops * machine.flop
    else:  # a lane computes four channels
        busy = machine.in_waves(total, 4 * shape.group_in * shape.taps * _PRODUCT)
        cost = machine.beside(busy, moved_bytes(problem))
    cost += 2 * machine.dispatch
    return [Candidate("general", input_layouts(problem), (Layout.C4,), emit, cost)]


def _most_channels(shape: ConvShape, limits: DeviceLimits) -> int:
    """Input channels that a lane may take in one dispatch: each for four output channels."""
    for_a_channel = rounds(4, 1, shape.taps) - rounds(4, 0)
    return max(0, limits.max_loop_rounds - rounds(4, 0)) // for_a_channel


def _emit(emitter: Emitter, shape: ConvShape) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    weights = _constant(emitter) or _joined(emitter)
    total = shape.batch * shape.m4 * shape.pixels
    y = emitter.output()
    most = _most_channels(shape, limits)
    for first in range(0, shape.group_in, most):
        count = min(most, shape.group_in - first)
        emitter.dispatch(
            "convolution/general",
            [read1(emitter.input(0)), read1(weights), update(y) if first else write(y)],
            groups=spread(ceil_div(total, lanes), limits),
            local=(lanes, 1, 1),
            push={**_push(shape, total), "first": first, "count": count},
            spec={"HAS_BIAS": int(has_bias(emitter.problem))},
            defines={"ELEM": int(not y.is_float), "ADD": int(first > 0)},
            epilogue=1 if y.is_float else None,
            with_steps=first + count == shape.group_in,
            flops=shape.flops * count // shape.group_in,
        )


def _push(shape: ConvShape, total: int) -> dict[str, int]:
    """Push constants that all dispatches share."""
    return {
        "pixels": shape.pixels,
        "total": total,
        "c4": shape.c4,
        "m4": shape.m4,
        "channels": shape.channels_out,
        "group_in": shape.group_in,
        "group_out": shape.group_out,
        **shape.geometry(),
        **by_axis("out", shape.size_out[1:]),
        "bias": shape.channels_out * shape.group_in * shape.taps,
    }


def _constant(emitter: Emitter) -> Ref | None:
    sources = constant_weights(emitter.problem)
    if sources is None:
        return None
    dtype = np.float32 if emitter.output().is_float else np.int32
    return emitter.weight(
        "general", lambda: np.concatenate([s.ravel() for s in sources]).astype(dtype), *sources
    )


def _joined(emitter: Emitter) -> Ref:
    """Run-time weights and bias in one buffer, since a shader has few bindings."""
    w, types = emitter.input(1), emitter.problem.inputs
    if not has_bias(emitter.problem):
        return w
    assert types[1] is not None and types[2] is not None
    bias, count, extra = emitter.input(2), types[1].size, types[2].size
    joined = emitter.scratch("weights", count + extra, dtype=types[1].dtype, as_tensor=True)
    emitter.copy(w, joined, w.width * count)
    emitter.copy(bias, joined, w.width * extra, 0, w.width * count)
    return joined
