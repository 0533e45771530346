"""Lowering of DeformConv: samples for every tap in scratch, then products over taps and channels.

The samples of an image are [c4][tap][pixel] vec4s, a tensor of depth "taps" that a convolution with
a kernel of that depth reduces to depth 1. They are made for as many pixels at a time as fit.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.convolution.shape import Channels
from vknn.lowering.kernels.convolution.span import (
    ChannelSpans,
    SpanTile,
    span_cost,
    span_tiles,
    span_weights,
    spans_fit,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, lane_count, spread
from vknn.ops.convolution.deform_conv import DeformConv

#: Most bytes of samples at a time.
_MOST_SAMPLES = 1 << 26
#: Most vec4s of channels that a lane samples at one place.
_RUN = 8
#: Operations of a vec4 read between pixels, with addresses and bounds.
_SAMPLE_FLOPS = 100
#: Most parts that the images are cut into.
_MOST_PARTS = 256


@dataclass(frozen=True)
class Band:
    """Some pixels of an image, in a row."""

    image: int
    first: int
    pixels: int


@dataclass(frozen=True)
class _Shape(Channels):
    """Sizes of a DeformConv. ``most_samples``: bytes that samples may take."""

    op: DeformConv
    batch: int
    size_in: tuple[int, ...]
    size_out: tuple[int, ...]
    kernel: tuple[int, ...]
    most_samples: int

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Output pixels of an image."""
        return math.prod(self.size_out)

    @property
    def mixed(self) -> bool:
        """True where a vec4 of channels may belong to several offset groups."""
        return self.op.offset_group > 1 and self.channels_in // self.op.offset_group % 4 != 0

    @property
    def run(self) -> int:
        """vec4s of channels that a lane samples; they belong to one offset group."""
        if self.mixed:
            return 1
        if self.op.offset_group == 1:
            return min(_RUN, self.c4)
        return math.gcd(_RUN, self.channels_in // self.op.offset_group // 4)

    @property
    def band(self) -> int:
        """Pixels that samples are made for at a time."""
        return min(self.pixels, self.most_samples // (16 * self.c4 * self.taps))

    @property
    def bands(self) -> list[Band]:
        """The parts that the images are cut into."""
        firsts = range(0, self.pixels, self.band)
        return [
            Band(image, first, min(self.band, self.pixels - first))
            for image in range(self.batch)
            for first in firsts
        ]

    @property
    def parts(self) -> int:
        """Number of the bands."""
        return self.batch * ceil_div(self.pixels, self.band) if self.band else 0

    def spans(self, block: int) -> ChannelSpans:
        """The spans of the product's tiles with ``block`` vec4s of output channels."""
        channels = self.channels_in, self.channels_out, self.group
        return ChannelSpans(*channels, taps=self.taps, block=block)

    def lanes(self, pixels: int) -> int:
        """Lanes that sample so many pixels."""
        return ceil_div(self.c4, self.run) * self.taps * pixels

    def groups(self, tile: SpanTile, pixels: int) -> int:
        """Workgroups of the product."""
        return ceil_div(pixels, tile.pixels * tile.lanes) * self.spans(tile.block).blocks

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        products = self.channels_out * self.group_in * self.taps
        return 2 * self.batch * self.pixels * products


def _shape(problem: Problem) -> _Shape:
    op, x, w = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, DeformConv)
    return _Shape(
        channels_in=x.dims[1],
        channels_out=w.dims[0],
        group=op.group,
        op=op,
        batch=x.dims[0],
        size_in=x.dims[2:],
        size_out=problem.outputs[0].dims[2:],
        kernel=w.dims[2:],
        most_samples=min(problem.limits.max_storage_buffer_range, _MOST_SAMPLES),
    )


@lowers(DeformConv)
def deform_conv(problem: Problem) -> list[Candidate]:
    """A candidate for each register tile of the product."""
    shape, limits = _shape(problem), problem.limits
    if not 0 < shape.parts <= _MOST_PARTS or not fits_loops(limits, shape.run, 4):
        return []
    found = [_candidate(problem, shape, tile) for tile in span_tiles(limits)]
    return [c for c in found if c is not None]


def _candidate(problem: Problem, shape: _Shape, tile: SpanTile) -> Candidate | None:
    limits, spans = problem.limits, shape.spans(tile.block)
    groups, sampled = shape.groups(tile, shape.band), shape.lanes(shape.band)
    most = max(groups, ceil_div(sampled, lane_count(limits)))
    if not spans_fit(limits, spans, most, shape.taps):
        return None
    product = span_cost(limits, tile, groups, shape.taps * spans.span)
    machine = problem.machine
    sampling = machine.dispatch + sampled * shape.run * _SAMPLE_FLOPS * machine.flop
    packing = 0.0 if _constants(problem) is not None else machine.dispatch
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
    problem, spans = emitter.problem, shape.spans(tile.block)
    bias = emitter.inputs[3] if _has(problem, 3) else None
    weights = span_weights(emitter, spans, _constants(problem), bias)
    count = 4 * shape.c4 * shape.taps * shape.band
    samples = emitter.scratch("samples", count, as_tensor=True)
    for band in shape.bands:
        _emit_samples(emitter, shape, samples, band)
        _emit_sums(emitter, shape, tile, samples, weights, band)


def _emit_samples(emitter: Emitter, shape: _Shape, samples: Ref, band: Band) -> None:
    op, problem = shape.op, emitter.problem
    limits, lanes = problem.limits, lane_count(problem.limits)
    offset, total = emitter.input(2), shape.lanes(band.pixels)
    mask = emitter.input(4) if _has(problem, 4) else offset
    emitter.dispatch(
        "convolution/deform_sample",
        [read4(emitter.input(0)), read1(offset), read1(mask), write(samples)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=_sample_push(shape, band),
        spec={
            "MASKED": int(_has(problem, 4)),
            "MIXED": int(shape.mixed),
            "CLAMPED": int(op.clamped),
        },
        flops=8 * 4 * shape.c4 * shape.taps * band.pixels,
        label=f"{emitter.label} sample",
    )


def _sample_push(shape: _Shape, band: Band) -> dict[str, int]:
    op = shape.op
    return {
        "total": shape.lanes(band.pixels),
        "pixels": band.pixels,
        "run": shape.run,
        "first": band.first,
        "plane": shape.pixels,
        "image": band.image,
        "c4": shape.c4,
        "channels": shape.channels_in,
        "offset_group_channels": shape.channels_in // op.offset_group,
        "offset_groups": op.offset_group,
        "taps": shape.taps,
        **by_axis("in", shape.size_in),
        "out_w": shape.size_out[1],
        "kernel_w": shape.kernel[1],
        **by_axis("stride", op.strides),
        **by_axis("dilation", op.dilations),
        **by_axis("pad", op.pads[:2]),
    }


def _emit_sums(
    emitter: Emitter, shape: _Shape, tile: SpanTile, samples: Ref, weights: Ref, band: Band
) -> None:
    """The convolution of the samples of a band, a tensor whose depth the kernel covers."""
    spans, groups = shape.spans(tile.block), shape.groups(tile, band.pixels)
    ones = (1, 1, 1)
    emitter.dispatch(
        "convolution/grouped",
        [read4(samples), read4(weights), write(emitter.output())],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push={
            "total": groups,
            "tiles": ceil_div(band.pixels, tile.pixels * tile.lanes),
            **spans.push,
            **by_axis("in", (shape.taps, 1, band.pixels)),
            **by_axis("out", (1, 1, band.pixels)),
            **by_axis("kernel", (shape.taps, 1, 1)),
            **by_axis("stride", ones),
            **by_axis("pad", (0, 0, 0)),
            **by_axis("dilation", ones),
            "plane": shape.pixels,
            "shift": band.image * shape.m4 * shape.pixels + band.first,
        },
        spec={**tile.spec, "AXES": 3, "AGAIN": spans.again(emitter.problem.limits, tile)},
        defines={"ELEM": 0, "SHUFFLE": int(tile.shuffle)},
        epilogue=1,
        flops=shape.flops * band.pixels // (shape.batch * shape.pixels),
    )
