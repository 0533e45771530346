"""Convolution in groups that do not fill vec4s of channels (shaders/convolution/grouped.comp)."""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    input_layouts,
    packing_cost,
)
from vknn.lowering.kernels.convolution.span import (
    SpanTile,
    channel_spans,
    emit_span,
    quantized_tiles,
    span_cost,
    spans_fit,
)
from vknn.lowering.kernels.quantized.few_bits import WHOLE, weight_bits
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem


def grouped_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile where a vec4 of channels belongs to several groups.

    Where each channel is a group of its own, the depthwise kernel alone is offered; also where it
    has several output channels and weights of few bits.
    """
    multiplied = shape.is_multiplied and weight_bits(problem) < WHOLE
    if shape.whole_vectors or shape.is_depthwise or multiplied:
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
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    out = {**by_axis("out", shape.size_out), "plane": shape.pixels, "shift": 0}
    groups = _group_count(shape, tile)
    emit_span(emitter, "convolution/grouped", shape, tile, groups, {"tiles": tiles, **out})
