"""Convolution tiles whose output channels span groups (shaders/convolution/span.glsl)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.convolution.shape import (
    Channels,
    ConvShape,
    constant_weights,
    has_bias,
    has_finite_weights,
)
from vknn.lowering.kernels.convolution.tile import RegisterTile, can_shuffle
from vknn.lowering.kernels.quantized.few_bits import (
    WHOLE,
    few_constants,
    pack_few,
    weight_bits,
)
from vknn.lowering.kernels.quantized.requantize import (
    BYTES,
    NUMBERS,
    by_floats,
    is_quantized,
    pack,
    quantized_variant,
)
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.parameters import Push
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class SpanTile(RegisterTile):
    """A lane's tile of pixels and output channels, which may belong to several groups."""

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"span{self.pixels}x{self.block}" + ("-shuffle" if self.shuffle else "")


@dataclass(frozen=True)
class ChannelSpans(Channels):
    """Spans of input channels that blocks of ``block`` vec4s of output channels read.

    ``taps``: of the whole kernel.
    """

    taps: int
    block: int

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return ceil_div(self.m4, self.block)

    @property
    def span(self) -> int:
        """vec4s of input channels that a block reads."""
        if self.group == 1:
            return self.c4
        width = 4 * self.block
        # Where a block starts within its group, and with it the span, repeats after a few blocks.
        period = self.group_out // np.gcd(self.group_out, width) * 4
        firsts = np.arange(min(self.blocks, period)) * width
        lasts = np.minimum(firsts + width, self.channels_out) - 1
        ends = -(-(lasts // self.group_out + 1) * self.group_in // 4)
        return int((ends - self._begin(firsts)).max())

    def again(self, limits: DeviceLimits, tile: SpanTile, outside: bool = False) -> int | None:
        """Specialization constant AGAIN: whether there are products that must not count.

        ``outside``: those of weights with what lies outside of the input do not.
        """
        rounds = self.taps * self.span, 1 + tile.pixels * tile.block
        wanted = self.group > 1 or outside
        return 1 if wanted and fits_loops(limits, rounds[0], times=rounds[1]) else None

    def start(self, block: np.ndarray) -> np.ndarray:
        """The first vec4 of input channels that a block reads."""
        return np.minimum(self._begin(4 * self.block * block), self.c4 - self.span)

    def _begin(self, channel: np.ndarray) -> np.ndarray:
        return channel // self.group_out * self.group_in // 4

    @property
    def count(self) -> int:
        """vec4s of the packed weights."""
        return self.blocks * self.taps * self.span * 4 * self.block

    @property
    def total(self) -> int:
        """vec4s of the packed weights and the bias."""
        return self.count + self.blocks * self.block

    @property
    def push(self) -> dict[str, int]:
        """Push constants of span.glsl: the channels, and where the bias starts."""
        return {
            "c4": self.c4,
            "span": self.span,
            "channels": self.channels_out,
            "group_in": self.group_in,
            "group_out": self.group_out,
            "bias": self.count,
        }

    @property
    def pack_push(self) -> dict[str, int]:
        """Push constants of pack_span.comp: the channels and taps."""
        return {
            "taps": self.taps,
            "c4": self.c4,
            "span": self.span,
            "channels_in": self.channels_in,
            "channels": self.channels_out,
            "group_in": self.group_in,
            "group_out": self.group_out,
        }


def channel_spans(shape: ConvShape, block: int) -> ChannelSpans:
    """The spans of a convolution whose tiles have ``block`` vec4s of output channels."""
    channels = shape.channels_in, shape.channels_out, shape.group
    return ChannelSpans(*channels, taps=shape.taps, block=block)


def span_tiles(limits: DeviceLimits) -> list[SpanTile]:
    """The tiles worth trying on a device."""
    lanes = lane_count(limits)
    if limits.kind != "cpu":
        return [SpanTile(n, m, lanes) for n, m in ((4, 4), (4, 2), (2, 2), (4, 1), (1, 1))]
    tiles = [SpanTile(n, m, lanes) for n, m in ((4, 4), (8, 2), (8, 1), (4, 1), (1, 1))]
    if can_shuffle(limits, lanes):
        tiles += [SpanTile(n, m, lanes, True) for n, m in ((4, 4), (3, 8), (8, 2), (1, 4))]
    return tiles


def quantized_tiles(problem: Problem) -> list[SpanTile]:
    """The tiles worth trying for an op.

    Sums of quantized integers in integers do not shuffle, nor weights of few bits.
    """
    tiles = span_tiles(problem.limits)
    plain = (is_quantized(problem) and not by_floats(problem)) or weight_bits(problem) < WHOLE
    return [tile for tile in tiles if not (plain and tile.shuffle)]


def spans_fit(limits: DeviceLimits, spans: ChannelSpans, groups: int, taps: int) -> bool:
    """True where the device allows the workgroups, also for packing, the loops and the weights.

    ``taps``: most taps that an output takes.
    """
    most = max(groups, ceil_div(spans.total, lane_count(limits)))
    loops = fits_loops(limits, taps * spans.span)
    return loops and fits(most, limits) and fits_buffer(limits, 4 * spans.total)


def span_cost(limits: DeviceLimits, tile: SpanTile, groups: int, steps: float) -> float:
    """Microseconds of ``groups`` workgroups that take ``steps`` rounds each."""
    products, loads, machine = tile.products, tile.loads, machine_of(limits)
    if limits.kind == "cpu":
        # In units of one vector instruction, as in the estimate of the tiled convolution.
        spill = 1.0 if tile.pixels * tile.block <= 16 else 1.5
        step = 50 * loads + 6 * spill * products + (16 * tile.block if tile.shuffle else 0)
        work = step * steps + 700 + 150 * tile.pixels * tile.block
        return machine.dispatch + machine.in_groups(groups, work)
    work = steps * (4 * products + 8 * loads)
    return machine.dispatch + machine.in_waves(groups * tile.lanes, work)


def pack_span(
    spans: ChannelSpans, transposed: bool, w: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """Weights as [block][tap][span][4][``block`` vec4s of output channels], then the bias.

    ``w`` is [channels_out, group_in, taps...], or [channels_in, group_out, taps...] where
    ``transposed``. Weights between channels of different groups and padding lanes are 0.
    """
    dtype = np.float32 if w.dtype.kind == "f" else np.int32
    blocks, width = spans.blocks, 4 * spans.block
    packed = np.zeros((blocks, spans.taps, 4 * spans.span, width), dtype)
    per_output = _by_output(spans, transposed, w)
    starts = 4 * spans.start(np.arange(blocks))
    for m in range(spans.channels_out):
        block, lane = divmod(m, width)
        first = m // spans.group_out * spans.group_in - starts[block]
        packed[block, :, first : first + spans.group_in, lane] = per_output[m].T
    biases = np.zeros(blocks * width, dtype)
    if bias is not None:
        biases[: spans.channels_out] = bias
    return np.concatenate([packed.ravel(), biases])


def _by_output(spans: ChannelSpans, transposed: bool, w: np.ndarray) -> np.ndarray:
    """Weights as [channels_out, group_in, taps]."""
    if not transposed:
        return w.reshape(spans.channels_out, spans.group_in, spans.taps)
    split = w.reshape(spans.group, spans.group_in, spans.group_out, spans.taps)
    return split.swapaxes(1, 2).reshape(spans.channels_out, spans.group_in, spans.taps)


def span_weights(
    emitter: Emitter,
    spans: ChannelSpans,
    sources: tuple[np.ndarray, ...] | None,
    bias: Ref | None,
    *,
    transposed: bool = False,
    bits: int = WHOLE,
) -> Ref:
    """Weights and bias as :func:`pack_span` has them; ``sources``: None where not constant.

    ``bias``: the buffer of a bias that is known only at run time. ``bits`` of a weight: with few
    the bias is left out.
    """
    if bits < WHOLE:
        make = functools.partial(pack_span, spans, transposed)
        return pack_few(
            emitter, f"span.{spans.group}", make, 4 * spans.count, bits, 4 * spans.block
        )
    if sources is None:
        w = emitter.input(1)
        return pack_on_device(emitter, spans, w, bias, transposed=transposed, depthwise=False)
    key = f"{'transposed' if transposed else 'span'}.{spans.block}.{spans.group}"
    return pack(emitter, key, functools.partial(pack_span, spans, transposed), sources)


def pack_on_device(
    emitter: Emitter,
    spans: ChannelSpans,
    w: Ref,
    bias: Ref | None,
    *,
    transposed: bool,
    depthwise: bool,
) -> Ref:
    """Weights known only at run time, packed by a dispatch of their own."""
    limits = emitter.problem.limits
    count = spans.m4 * spans.taps if depthwise else spans.count
    total = count + spans.m4 if depthwise else spans.total
    dtype = DType.FLOAT32 if w.is_float else DType.INT32
    packed = emitter.scratch("packed", 4 * total, dtype=dtype, as_tensor=True)
    lanes = lane_count(limits)
    emitter.dispatch(
        "convolution/pack_span",
        [read1(w), read1(bias or w), write(packed)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={"weights": count, "total": total, **spans.pack_push},
        spec={
            "TM": spans.block,
            "HAS_BIAS": int(bias is not None),
            "TRANSPOSED": int(transposed),
            "DEPTHWISE": int(depthwise),
        },
        defines={"ELEM": int(not w.is_float)},
        label=f"{emitter.label} pack",
    )
    return packed


def emit_span(
    emitter: Emitter,
    kernel: str,
    shape: ConvShape,
    tile: SpanTile,
    groups: int,
    push: Push,
    *,
    transposed: bool = False,
) -> None:
    """Dispatches a kernel of convolution/span.glsl in ``groups`` workgroups.

    ``push``: push constants besides the workgroups, the spans and the geometry.
    """
    problem, spans = emitter.problem, channel_spans(shape, tile.block)
    bias = emitter.inputs[2] if has_bias(problem) else None
    bits, sources = weight_bits(problem), constant_weights(problem)
    weights = span_weights(emitter, spans, sources, bias, transposed=transposed, bits=bits)
    few = few_constants(problem, bits)
    variant = quantized_variant(emitter, 4, weight_format=BYTES if few else NUMBERS)
    floats = emitter.input(0).is_float and not few
    outside = transposed and floats and not has_finite_weights(problem)
    again = spans.again(problem.limits, tile, outside) if floats else None
    emitter.dispatch(
        kernel,
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *variant.bindings],
        groups=spread(groups, problem.limits),
        local=(tile.lanes, 1, 1),
        push={"total": groups, **spans.push, **shape.geometry(), **push},
        spec={
            **tile.spec,
            "AXES": 3 if shape.has_depth else 2,
            "AGAIN": again,
            **variant.spec,
            **few,
        },
        defines={**variant.defines, "SHUFFLE": int(tile.shuffle), **({"FEW": 1} if few else {})},
        epilogue=variant.epilogue,
        flops=shape.flops,
    )
