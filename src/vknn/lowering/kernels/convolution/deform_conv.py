"""Lowering of DeformConv: what every tap samples, then a product over taps and channels.

The samples of an image lie in scratch as [c4][tap][pixel], which is a tensor of depth "taps" that
a kernel of that depth takes to depth 1. They are made for as many pixels at a time as fit.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from vknn.lowering.kernels.convolution.span import (
    Spans,
    SpanTile,
    pack_on_device,
    pack_span,
    span_cost,
    span_tiles,
)
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.plan import DeviceLimits

#: Most bytes of samples at a time, where the device allows as many.
_MOST_SAMPLES = 1 << 26
#: vec4s of channels that a lane samples at a place that it has worked out.
_RUN = 8
#: Most dispatches for an op; beyond, images are too large for it.
_MOST_PARTS = 256


class _Shape:
    """The numbers of a DeformConv."""

    def __init__(self, problem: Problem) -> None:
        op, (x, w) = problem.op, problem.inputs[:2]
        assert isinstance(op, DeformConv) and x is not None and w is not None
        self.op = op
        self.batch, self.channels, *self.size_in = x.dims
        self.size_out = problem.outputs[0].dims[2:]
        self.kernel = w.dims[2:]
        self.channels_out = w.dims[0]
        self.taps = math.prod(self.kernel)
        self.pixels = math.prod(self.size_out)
        self.c4 = ceil_div(self.channels, 4)
        self.m4 = ceil_div(self.channels_out, 4)
        self.mixed = op.offset_group > 1 and self.channels // op.offset_group % 4 != 0
        self.run = 1 if self.mixed else self._run()
        self.band = min(self.pixels, self._most_pixels(problem.limits))

    def _run(self) -> int:
        """vec4s of a lane; they belong to one offset group."""
        if self.op.offset_group == 1:
            return min(_RUN, self.c4)
        return math.gcd(_RUN, self.channels // self.op.offset_group // 4)

    def _most_pixels(self, limits: DeviceLimits) -> int:
        room = min(limits.max_storage_buffer_range, _MOST_SAMPLES)
        return room // (16 * self.c4 * self.taps)

    @property
    def bands(self) -> list[tuple[int, int, int]]:
        """(image, first pixel, pixels) of each part."""
        firsts = range(0, self.pixels, self.band)
        return [
            (image, first, min(self.band, self.pixels - first))
            for image in range(self.batch)
            for first in firsts
        ]

    @property
    def parts(self) -> int:
        return self.batch * ceil_div(self.pixels, self.band) if self.band else 0

    def spans(self, block: int) -> Spans:
        return Spans(self.channels, self.channels_out, self.op.group, self.taps, block)

    def lanes(self, pixels: int) -> int:
        """Lanes that sample so many pixels."""
        return ceil_div(self.c4, self.run) * self.taps * pixels

    def groups(self, tile: SpanTile, pixels: int) -> int:
        """Workgroups of the product."""
        return ceil_div(pixels, tile.pixels * tile.lanes) * self.spans(tile.block).blocks

    @property
    def flops(self) -> int:
        products = self.channels_out * self.channels // self.op.group * self.taps
        return 2 * self.batch * self.pixels * products


@lowers(DeformConv)
def deformable(problem: Problem) -> list[Candidate]:
    """A candidate for each register tile of the product."""
    shape, limits = _Shape(problem), problem.limits
    if not 0 < shape.parts <= _MOST_PARTS or not fits_loops(limits, shape.run, 4):
        return []
    found = [_candidate(problem, shape, tile) for tile in span_tiles(limits)]
    return [c for c in found if c is not None]


def _candidate(problem: Problem, shape: _Shape, tile: SpanTile) -> Candidate | None:
    limits, spans = problem.limits, shape.spans(tile.block)
    lanes = lane_count(limits)
    groups = shape.groups(tile, shape.band)
    most = max(groups, ceil_div(max(shape.lanes(shape.band), spans.total), lanes))
    loops = fits_loops(limits, shape.taps * spans.span)
    if not (loops and fits(most, limits) and fits_buffer(limits, 4 * spans.total)):
        return None
    product = span_cost(limits, tile, groups, shape.taps * spans.span)
    sampling = DISPATCH_COST + shape.lanes(shape.band) * shape.run * 2e-3
    packing = 0.0 if _constants(problem) is not None else DISPATCH_COST
    inputs = tuple(
        None if type_ is None else Layout.C4 if index == 0 else Layout.LINEAR
        for index, type_ in enumerate(problem.inputs)
    )
    if packing == 0.0:
        inputs = tuple(None if i in (1, 3) else layout for i, layout in enumerate(inputs))
    emit = functools.partial(_emit, shape=shape, tile=tile)
    cost = packing + shape.parts * (product + sampling)
    return Candidate(tile.name, inputs, (Layout.C4,), emit, cost)


def _has(problem: Problem, index: int) -> bool:
    return len(problem.inputs) > index and problem.inputs[index] is not None


def _constants(problem: Problem) -> tuple[np.ndarray, ...] | None:
    """Weight and, where there is one, bias; None where either is known only at run time."""
    wanted = (1, 3) if _has(problem, 3) else (1,)
    found = [problem.constants[i] for i in wanted]
    return None if any(c is None for c in found) else tuple(c for c in found if c is not None)


def _emit(emitter: Emitter, shape: _Shape, tile: SpanTile) -> None:
    spans = shape.spans(tile.block)
    weights = _weights(emitter, spans)
    count = 4 * shape.c4 * shape.taps * shape.band
    samples = emitter.scratch("samples", count, as_tensor=True)
    for image, first, pixels in shape.bands:
        _sample(emitter, shape, samples, image, first, pixels)
        _product(emitter, shape, tile, samples, weights, (image, first, pixels))


def _weights(emitter: Emitter, spans: Spans) -> Ref:
    sources = _constants(emitter.problem)
    if sources is None:
        bias = emitter.inputs[3] if _has(emitter.problem, 3) else None
        w = emitter.input(1)
        return pack_on_device(emitter, spans, w, bias, transposed=False, depthwise=False)
    key = f"span.{spans.block}.{spans.group}"
    return emitter.weight(key, lambda: pack_span(spans, False, *sources), *sources)


def _sample(
    emitter: Emitter, shape: _Shape, samples: Ref, image: int, first: int, pixels: int
) -> None:
    op, problem = shape.op, emitter.problem
    limits, lanes = problem.limits, lane_count(problem.limits)
    offset, total = emitter.input(2), shape.lanes(pixels)
    mask = emitter.input(4) if _has(problem, 4) else offset
    push = [total, pixels, shape.run, first, shape.pixels, image, shape.c4, shape.channels]
    push += [shape.channels // op.offset_group, op.offset_group, shape.taps]
    push += [*shape.size_in, shape.size_out[1], shape.kernel[1]]
    emitter.dispatch(
        "convolution/deform_sample",
        [read4(emitter.input(0)), read1(offset), read1(mask), write(samples)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[*push, *op.strides, *op.dilations, *op.pads[:2]],
        spec={10: int(_has(problem, 4)), 11: int(shape.mixed), 12: int(op.clamped)},
        flops=8 * 4 * shape.c4 * shape.taps * pixels,
        label=f"{emitter.label} sample",
    )


def _product(
    emitter: Emitter,
    shape: _Shape,
    tile: SpanTile,
    samples: Ref,
    weights: Ref,
    part: tuple[int, int, int],
) -> None:
    image, first, pixels = part
    spans, groups = shape.spans(tile.block), shape.groups(tile, pixels)
    push = [groups, ceil_div(pixels, tile.pixels * tile.lanes), spans.c4, spans.span]
    push += [spans.channels_out, spans.group_in, spans.group_out, spans.count]
    push += [shape.taps, 1, pixels, 1, 1, pixels, shape.taps, 1, 1]
    push += [1, 1, 1, 0, 0, 0, 1, 1, 1]  # strides, pads, dilations
    emitter.dispatch(
        "convolution/grouped",
        [read4(samples), read4(weights), write(emitter.output())],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push=[*push, shape.pixels, image * shape.m4 * shape.pixels + first],
        spec={10: tile.pixels, 11: tile.block, 12: 3},
        defines={"ELEM": 0, "SHUFFLE": int(tile.shuffle)},
        epilogue=1,
        flops=shape.flops * pixels // (shape.batch * shape.pixels),
    )
