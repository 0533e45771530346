"""Convolution in groups that do not fill vec4s of channels (shaders/convolution/grouped.comp)."""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
)
from vknn.lowering.kernels.convolution.span import (
    Spans,
    SpanTile,
    pack_on_device,
    pack_span,
    quantized_tiles,
    span_cost,
)
from vknn.lowering.kernels.quantized.requantize import form, pack
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, lane_count, spread


def grouped_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile, where the plain tiles cannot do the groups.

    A NaN or an infinity of one group can reach those that share a vec4 with it; so where each
    channel is a group of its own, the depthwise kernel alone is offered.
    """
    if shape.whole_vectors or shape.is_depthwise:
        return []
    tiles = [tile for tile in quantized_tiles(problem) if _fits(problem, shape, tile)]
    return [_candidate(problem, shape, tile) for tile in tiles]


def _spans(shape: ConvShape, tile: SpanTile) -> Spans:
    return Spans(shape.channels_in, shape.channels_out, shape.group, shape.taps, tile.block)


def _group_count(shape: ConvShape, tile: SpanTile) -> int:
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    return tiles * _spans(shape, tile).blocks * shape.batch


def _fits(problem: Problem, shape: ConvShape, tile: SpanTile) -> bool:
    limits, spans = problem.limits, _spans(shape, tile)
    most = max(_group_count(shape, tile), ceil_div(spans.total, lane_count(limits)))
    loops = fits_loops(limits, shape.taps * spans.span)
    return loops and fits(most, limits) and fits_buffer(limits, 4 * spans.total)


def _candidate(problem: Problem, shape: ConvShape, tile: SpanTile) -> Candidate:
    steps = shape.taps * _spans(shape, tile).span
    packing = 0.0 if constant_weights(problem) is not None else DISPATCH_COST
    cost = span_cost(problem.limits, tile, _group_count(shape, tile), steps) + packing
    emit = functools.partial(_emit, shape=shape, tile=tile)
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _weights(emitter: Emitter, spans: Spans) -> Ref:
    sources = constant_weights(emitter.problem)
    if sources is not None:
        key = f"span.{spans.block}.{spans.group}"
        return pack(emitter, key, functools.partial(pack_span, spans, False), sources)
    bias = emitter.inputs[2] if has_bias(emitter.problem) else None
    return pack_on_device(emitter, spans, emitter.input(1), bias, transposed=False, depthwise=False)


def _emit(emitter: Emitter, shape: ConvShape, tile: SpanTile) -> None:
    spans, groups = _spans(shape, tile), _group_count(shape, tile)
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    weights = _weights(emitter, spans)
    push = [groups, tiles, shape.c4, spans.span, shape.channels_out]
    push += [shape.group_in, shape.group_out, spans.count, *shape.size_in, *shape.size_out]
    push += [*shape.kernel, *shape.strides, *shape.pads, *shape.dilations, shape.pixels, 0]
    kind = form(emitter, 4)
    emitter.dispatch(
        "convolution/grouped",
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *kind.bindings],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push=push,
        spec={10: tile.pixels, 11: tile.block, 12: 3 if shape.has_depth else 2, **kind.spec},
        defines={**kind.defines, "SHUFFLE": int(tile.shuffle)},
        epilogue=kind.epilogue,
        flops=shape.flops,
    )
