"""Lowering of ConvTranspose: activations in C4, outputs of one phase of the strides together.

Outputs that lie a stride apart read the same taps of the kernel, so each phase is a convolution of
stride 1 with a part of the kernel (shaders/convolution/conv_transpose_taps.glsl).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    Triple,
    constant_weights,
    has_bias,
    input_layouts,
    triple,
)
from vknn.lowering.kernels.convolution.span import (
    Spans,
    SpanTile,
    pack_on_device,
    pack_span,
    quantized_tiles,
    span_cost,
)
from vknn.lowering.kernels.quantized.requantize import form, has_setting, is_quantized, pack
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import (
    CPU_GROUP_COST,
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.convolution.conv_transpose import ConvTranspose, Transposition
from vknn.ops.quantized.convolution import QuantizedConvTranspose


@dataclass(frozen=True)
class TransposedShape(ConvShape):
    """Sizes of a transposed convolution, and how its strides cut it into phases."""

    @property
    def phases(self) -> Triple:
        """Phases along each axis."""
        return _triple(min(s, n) for s, n in zip(self.strides, self.size_out, strict=True))

    @property
    def phase_size(self) -> Triple:
        """Outputs of a phase, at the most."""
        return _triple(ceil_div(n, s) for s, n in zip(self.strides, self.size_out, strict=True))

    @property
    def steps(self) -> Triple:
        """How far apart the taps of a phase are."""
        pairs = zip(self.strides, self.dilations, strict=True)
        return _triple(s // math.gcd(s, d) for s, d in pairs)

    @property
    def reaches(self) -> Triple:
        """How far apart the inputs are that two such taps read."""
        pairs = zip(self.strides, self.dilations, strict=True)
        return _triple(d // math.gcd(s, d) for s, d in pairs)

    @property
    def inverses(self) -> Triple:
        """The inverse of each reach modulo its step."""
        return _triple(pow(r, -1, s) for r, s in zip(self.reaches, self.steps, strict=True))

    @property
    def most_taps(self) -> int:
        """Taps of a phase, at the most."""
        return math.prod(ceil_div(k, s) for k, s in zip(self.kernel, self.steps, strict=True))

    @property
    def flops(self) -> int:
        pixels = self.batch * math.prod(self.size_in)
        return 2 * pixels * self.channels_in * self.group_out * self.taps

    def push(self) -> list[int]:
        """The geometry as the shaders have it."""
        sizes = [*self.size_in, *self.size_out, *self.kernel, *self.strides, *self.pads]
        return [*sizes, *self.steps, *self.reaches, *self.inverses]


def _triple(values: Iterable[int]) -> Triple:
    depth, height, width = values
    return depth, height, width


@lowers(ConvTranspose, QuantizedConvTranspose)
def transposed(problem: Problem) -> list[Candidate]:
    """Rows of a phase for one channel a group, register tiles for all."""
    shape = _shape(problem)
    if is_quantized(problem) and not has_setting(problem):
        return []
    found = [_tiled(problem, shape, tile) for tile in quantized_tiles(problem)]
    if shape.is_depthwise and not is_quantized(problem):
        found += [_depthwise(problem, shape, width) for width in (8, 4, 1)]
    return [c for c in found if c is not None]


def _shape(problem: Problem) -> TransposedShape:
    op, (x, w) = problem.op, problem.inputs[:2]
    assert isinstance(op, Transposition) and x is not None and w is not None
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


def _spans(shape: ConvShape, block: int) -> Spans:
    return Spans(shape.channels_in, shape.channels_out, shape.group, shape.taps, block)


def _weights(emitter: Emitter, spans: Spans, depthwise: bool) -> Ref:
    sources = constant_weights(emitter.problem)
    if sources is None:
        bias = emitter.inputs[2] if has_bias(emitter.problem) else None
        w = emitter.input(1)
        return pack_on_device(emitter, spans, w, bias, transposed=True, depthwise=depthwise)
    if depthwise:
        return emitter.weight("transposed.depthwise", lambda: _pack_depthwise(*sources), *sources)
    key = f"transposed.{spans.block}.{spans.group}"
    return pack(emitter, key, functools.partial(pack_span, spans, True), sources)


def _packing_cost(problem: Problem) -> float:
    return 0.0 if constant_weights(problem) is not None else DISPATCH_COST


# --- register tiles -------------------------------------------------------------------------------


def _group_count(shape: TransposedShape, tile: SpanTile) -> int:
    tiles = ceil_div(math.prod(shape.phase_size), tile.pixels * tile.lanes)
    return tiles * math.prod(shape.phases) * _spans(shape, tile.block).blocks * shape.batch


def _tiled(problem: Problem, shape: TransposedShape, tile: SpanTile) -> Candidate | None:
    limits, spans = problem.limits, _spans(shape, tile.block)
    groups = _group_count(shape, tile)
    most = max(groups, ceil_div(spans.total, lane_count(limits)))
    loops = fits_loops(limits, shape.most_taps * spans.span)
    if not (loops and fits(most, limits) and fits_buffer(limits, 4 * spans.total)):
        return None
    steps = shape.taps * spans.span / math.prod(shape.phases)
    cost = span_cost(limits, tile, groups, steps) + _packing_cost(problem)
    emit = functools.partial(_emit_tiled, shape=shape, tile=tile)
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _emit_tiled(emitter: Emitter, shape: TransposedShape, tile: SpanTile) -> None:
    spans, groups = _spans(shape, tile.block), _group_count(shape, tile)
    tiles = ceil_div(math.prod(shape.phase_size), tile.pixels * tile.lanes)
    weights = _weights(emitter, spans, depthwise=False)
    push = [groups, tiles, shape.c4, spans.span, shape.channels_out]
    push += [shape.group_in, shape.group_out, spans.count, *shape.push()]
    kind = form(emitter, 4)
    emitter.dispatch(
        "convolution/conv_transpose",
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *kind.bindings],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push=push,
        spec={10: tile.pixels, 11: tile.block, 12: 3 if shape.has_depth else 2, **kind.spec},
        defines={**kind.defines, "SHUFFLE": int(tile.shuffle)},
        epilogue=kind.epilogue,
        flops=shape.flops,
    )


# --- one channel a group --------------------------------------------------------------------------


def _lanes(shape: TransposedShape, width: int) -> int:
    depth, height, _ = shape.size_out
    tiles = ceil_div(shape.phase_size[2], width)
    return shape.batch * shape.c4 * depth * height * shape.phases[2] * tiles


def _depthwise(problem: Problem, shape: TransposedShape, width: int) -> Candidate | None:
    limits = problem.limits
    lanes, packed = _lanes(shape, width), shape.c4 * (shape.taps + 1)
    groups = ceil_div(max(lanes, packed), lane_count(limits))
    loops = fits_loops(limits, shape.most_taps)
    if not (loops and fits(groups, limits) and fits_buffer(limits, 4 * packed)):
        return None
    taps = shape.taps / math.prod(shape.phases)
    if limits.kind == "cpu":
        work = taps * (55 * (width + 1) + 20 * width) + 60 * width + 600
        cost = groups * (CPU_GROUP_COST + work * 1.5e-4) / 2
    else:
        cost = max(1.0, lanes / 16384) * (taps * (width + 1) + 20) * 2e-3
    cost += DISPATCH_COST + _packing_cost(problem)
    emit = functools.partial(_emit_depthwise, shape=shape, width=width)
    return Candidate(f"depthwise{width}", input_layouts(problem), (Layout.C4,), emit, cost)


def _emit_depthwise(emitter: Emitter, shape: TransposedShape, width: int) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    total = _lanes(shape, width)
    weights = _weights(emitter, _spans(shape, 1), depthwise=True)
    push = [total, ceil_div(shape.phase_size[2], width), shape.c4, shape.channels_out]
    emitter.dispatch(
        "convolution/conv_transpose_depthwise",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=[*push, shape.c4 * shape.taps, *shape.push()],
        spec={10: width},
        epilogue=1,
        flops=shape.flops,
    )


def _pack_depthwise(w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """[c4][tap] vec4s of channels, then the bias [c4]; missing channels are 0."""
    channels, taps = w.shape[0], math.prod(w.shape[2:])
    padded = np.zeros((4 * ceil_div(channels, 4), taps + 1), np.float32)
    padded[:channels, :taps] = w.reshape(channels, taps)
    if bias is not None:
        padded[:channels, taps] = bias
    vectors = padded.reshape(-1, 4, taps + 1).transpose(0, 2, 1)
    return np.concatenate([vectors[:, :taps].ravel(), vectors[:, taps].ravel()])
