"""Lowering of ConvTranspose: activations in C4, a workgroup per phase of the strides.

Outputs that are a multiple of the stride apart (a phase) read the same taps of the kernel, so each
phase is a convolution of stride 1 with a part of the kernel
(shaders/convolution/conv_transpose_taps.glsl).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from vknn.lowering.kernels.convolution.depthwise import depthwise_weights
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    Triple,
    has_finite_weights,
    input_layouts,
    packing_cost,
    triple,
)
from vknn.lowering.kernels.convolution.span import (
    SpanTile,
    channel_spans,
    emit_span,
    quantized_tiles,
    span_cost,
    spans_fit,
)
from vknn.lowering.kernels.quantized.requantize import (
    has_setting,
    is_quantized,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.convolution.conv_transpose import ConvTranspose, Transposition
from vknn.ops.quantized.convolution import QuantizedConvTranspose

#: Most vec4s of sums of a lane where results may be computed anew.
_MOST_ANEW = 8


@dataclass(frozen=True)
class TransposedShape(ConvShape):
    """Sizes of a transposed convolution and of the phases of its strides."""

    @property
    def phases(self) -> Triple:
        """Number of phases along each axis."""
        return _triple(min(s, n) for s, n in zip(self.strides, self.size_out, strict=True))

    @property
    def phase_size(self) -> Triple:
        """Most outputs of a phase along each axis."""
        return _triple(ceil_div(n, s) for s, n in zip(self.strides, self.size_out, strict=True))

    @property
    def steps(self) -> Triple:
        """Distance between neighbouring taps of a phase: stride / gcd(stride, dilation)."""
        pairs = zip(self.strides, self.dilations, strict=True)
        return _triple(s // math.gcd(s, d) for s, d in pairs)

    @property
    def reaches(self) -> Triple:
        """Distance between the inputs that such taps read: dilation / gcd(stride, dilation)."""
        pairs = zip(self.strides, self.dilations, strict=True)
        return _triple(d // math.gcd(s, d) for s, d in pairs)

    @property
    def inverses(self) -> Triple:
        """The inverse of each reach modulo its step."""
        return _triple(pow(r, -1, s) for r, s in zip(self.reaches, self.steps, strict=True))

    @property
    def most_taps(self) -> int:
        """Most taps of a phase."""
        return math.prod(ceil_div(k, s) for k, s in zip(self.kernel, self.steps, strict=True))

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        pixels = self.batch * math.prod(self.size_in)
        return 2 * pixels * self.channels_in * self.group_out * self.taps

    def geometry(self) -> dict[str, int]:
        """Push constants: the sizes, kernel, strides and pads, and the taps of the phases."""
        taps = {**by_axis("step", self.steps), **by_axis("reach", self.reaches)}
        taps |= by_axis("inverse", self.inverses)
        return {**self._window(), **by_axis("out", self.size_out), **taps}


def _triple(values: Iterable[int]) -> Triple:
    depth, height, width = values
    return depth, height, width


@lowers(ConvTranspose, QuantizedConvTranspose)
def conv_transpose(problem: Problem) -> list[Candidate]:
    """Register tiles, and for depthwise kernels also rows of pixels of a phase."""
    shape = _shape(problem)
    if is_quantized(problem) and not has_setting(problem):
        return []
    found = [_tiled(problem, shape, tile) for tile in _tiles(problem, shape)]
    if shape.is_depthwise and not is_quantized(problem):
        found += [_depthwise(problem, shape, width) for width in (8, 4, 1)]
    return [c for c in found if c is not None]


def _shape(problem: Problem) -> TransposedShape:
    op, x, w = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, Transposition)
    return TransposedShape(
        batch=x.dims[0],
        channels_in=x.dims[1],
        channels_out=w.dims[1] * op.group,
        group=op.group,
        size_in=triple(x.dims[2:], 1),
        size_out=triple(problem.outputs[0].dims[2:], 1),
        kernel=triple(w.dims[2:], 1),
        strides=triple(op.strides, 1),
        dilations=triple(op.dilations, 1),
        pads=triple(op.pads[: x.rank - 2], 0),
    )


# --- register tiles -------------------------------------------------------------------------------


def _tiles(problem: Problem, shape: TransposedShape) -> list[SpanTile]:
    """The tiles worth trying.

    GPUs' caches of instructions have no room for results that are computed anew (AGAIN) behind
    most sums: with NVK these would be 33 KB, against a fiftieth of the time.
    """
    tiles = quantized_tiles(problem)
    if problem.limits.kind == "cpu" or is_quantized(problem):
        return tiles
    anew = shape.group > 1 or not has_finite_weights(problem)
    return [tile for tile in tiles if not anew or tile.pixels * tile.block <= _MOST_ANEW]


def _tile_count(shape: TransposedShape, tile: SpanTile) -> int:
    """Workgroups side by side over the pixels of a phase."""
    return ceil_div(math.prod(shape.phase_size), tile.pixels * tile.lanes)


def _group_count(shape: TransposedShape, tile: SpanTile) -> int:
    return (
        _tile_count(shape, tile)
        * math.prod(shape.phases)
        * channel_spans(shape, tile.block).blocks
        * shape.batch
    )


def _tiled(problem: Problem, shape: TransposedShape, tile: SpanTile) -> Candidate | None:
    limits, spans = problem.limits, channel_spans(shape, tile.block)
    groups = _group_count(shape, tile)
    if not spans_fit(limits, spans, groups, shape.most_taps):
        return None
    steps = shape.taps * spans.span / math.prod(shape.phases)
    cost = span_cost(limits, tile, groups, steps) + packing_cost(problem)
    emit = functools.partial(_emit_tiled, shape=shape, tile=tile)
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _emit_tiled(emitter: Emitter, shape: TransposedShape, tile: SpanTile) -> None:
    groups, push = _group_count(shape, tile), {"tiles": _tile_count(shape, tile)}
    kernel = "convolution/conv_transpose"
    emit_span(emitter, kernel, shape, tile, groups, push, transposed=True)


# --- depthwise ------------------------------------------------------------------------------------


def _lanes(shape: TransposedShape, width: int) -> int:
    depth, height, _ = shape.size_out
    tiles = ceil_div(shape.phase_size[2], width)
    return shape.batch * shape.c4 * depth * height * shape.phases[2] * tiles


def _depthwise(problem: Problem, shape: TransposedShape, width: int) -> Candidate | None:
    limits, machine = problem.limits, problem.machine
    lanes, packed = _lanes(shape, width), shape.c4 * (shape.taps + 1)
    groups = ceil_div(max(lanes, packed), lane_count(limits))
    loops = fits_loops(limits, shape.most_taps)
    if not (loops and fits(groups, limits) and fits_buffer(limits, 4 * packed)):
        return None
    taps = shape.taps / math.prod(shape.phases)
    if limits.kind == "cpu":
        work = taps * (55 * (width + 1) + 20 * width) + 60 * width + 600
        cost = machine.in_groups(groups, work)
    else:  # a read with its products counts as ten multiply-adds
        cost = machine.in_waves(lanes, 10 * (taps * (width + 1) + 20))
    cost += machine.dispatch + packing_cost(problem)
    emit = functools.partial(_emit_depthwise, shape=shape, width=width)
    return Candidate(f"depthwise{width}", input_layouts(problem), (Layout.C4,), emit, cost)


def _emit_depthwise(emitter: Emitter, shape: TransposedShape, width: int) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    total = _lanes(shape, width)
    weights = depthwise_weights(emitter, shape, transposed=True)
    emitter.dispatch(
        "convolution/conv_transpose_depthwise",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "total": total,
            "tiles": ceil_div(shape.phase_size[2], width),
            "c4": shape.c4,
            "channels": shape.channels_out,
            "bias": shape.c4 * shape.taps,
            **shape.geometry(),
        },
        spec={"TX": width},
        epilogue=1,
        flops=shape.flops,
    )
