"""Convolution in groups that do not fill vec4s of channels (shaders/convolution/grouped.comp)."""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
    packing_cost,
)
from vknn.lowering.kernels.convolution.span import (
    SpanTile,
    channel_spans,
    quantized_tiles,
    span_cost,
    span_weights,
    spans_fit,
)
from vknn.lowering.kernels.quantized.requantize import quantized_variant
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import spread


def grouped_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile where a vec4 of channels belongs to several groups.

    A NaN or an infinity of one group can reach those that share a vec4 with it; so where each
    channel is a group of its own, the depthwise kernel alone is offered.
    """
    if shape.whole_vectors or shape.is_depthwise:
        return []
    found = [_candidate(problem, shape, tile) for tile in quantized_tiles(problem)]
    return [c for c in found if c is not None]


def _group_count(shape: ConvShape, tile: SpanTile) -> int:
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    return tiles * channel_spans(shape, tile.block).blocks * shape.batch


def _candidate(problem: Problem, shape: ConvShape, tile: SpanTile) -> Candidate | None:
    spans, groups = channel_spans(shape, tile.block), _group_count(shape, tile)
    if not spans_fit(problem.limits, spans, groups, shape.taps):
        return None
    cost = span_cost(problem.limits, tile, groups, shape.taps * spans.span)
    cost += packing_cost(problem)
    emit = functools.partial(_emit, shape=shape, tile=tile)
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _emit(emitter: Emitter, shape: ConvShape, tile: SpanTile) -> None:
    problem = emitter.problem
    spans, groups = channel_spans(shape, tile.block), _group_count(shape, tile)
    bias = emitter.inputs[2] if has_bias(problem) else None
    weights = span_weights(emitter, spans, constant_weights(problem), bias)
    variant = quantized_variant(emitter, 4)
    emitter.dispatch(
        "convolution/grouped",
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *variant.bindings],
        groups=spread(groups, problem.limits),
        local=(tile.lanes, 1, 1),
        push={
            "total": groups,
            "tiles": ceil_div(shape.pixels, tile.pixels * tile.lanes),
            **spans.push,
            **shape.geometry(),
            **by_axis("out", shape.size_out),
            "plane": shape.pixels,
            "shift": 0,
        },
        spec={**tile.spec, "AXES": 3 if shape.has_depth else 2, **variant.spec},
        defines={**variant.defines, "SHUFFLE": int(tile.shuffle)},
        epilogue=variant.epilogue,
        flops=shape.flops,
    )
