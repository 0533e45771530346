"""Depthwise convolution (shaders/convolution/depthwise.comp)."""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
    moved_bytes,
    packing_cost,
)
from vknn.lowering.kernels.convolution.span import channel_spans, pack_on_device
from vknn.lowering.kernels.quantized.few_bits import (
    WHOLE,
    few_constants,
    pack_few,
    weight_bits,
)
from vknn.lowering.kernels.quantized.requantize import (
    BYTES,
    NUMBERS,
    MovingCost,
    in_bytes,
    pack,
    quantized_variant,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)

#: Most inputs that a lane keeps of a row; a longer reach costs more than it saves.
MOST_SPAN = 40
#: Most inputs of a row and results of a lane of a GPU: with more vec4s than that in registers there
#: is room for one wave on a SIMD of GCN, and for three of RDNA 2.
MOST_HELD = 24
#: Instructions for an input of a row, before and after the rows and for each pixel there, and
#: waits for a row and otherwise, by RADV's machine code for RDNA 2 (``vknn profile --static --isa``
#: on the null device navi21). Elsewhere a row takes some beside products and loads.
_READ, _OUTSIDE, _PIXEL, _ROW_WAITS, _OUTSIDE_WAITS, _ROW = 10.0, 115.0, 35.0, 1.15, 2.0, 8.0
#: Pixels of a lane -> waves that a SIMD has registers for, with up to three taps a row and more.
_HELD = {1: (16, 16), 2: (10, 10), 4: (8, 6), 7: (5, 4), 8: (5, 3)}


def depthwise_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """Candidates of one to eight pixels a lane."""
    multiplied = shape.is_multiplied and weight_bits(problem) < WHOLE
    if not (shape.is_depthwise or multiplied):
        return []
    widths = [width for width in (8, 7, 4, 2, 1) if _span(shape, width) <= MOST_SPAN]
    if problem.limits.kind != "cpu":
        widths = [w for w in widths if w == 1 or _span(shape, w) + w <= MOST_HELD]
    widths = [w for w in widths if _fits(problem, shape, w)]
    costs = [functools.partial(_cost, problem, shape, w) for w in widths]
    found = [_candidate(problem, shape, *each) for each in zip(widths, costs, strict=True)]
    return [*found, *in_bytes(problem, found, costs)]


def _candidate(problem: Problem, shape: ConvShape, width: int, cost: MovingCost) -> Candidate:
    emit, layouts = functools.partial(_emit, shape=shape, width=width), input_layouts(problem)
    return Candidate(f"depthwise{width}", layouts, (Layout.C4,), emit, cost(Layout.C4, 0))


def _span(shape: ConvShape, width: int) -> int:
    """Inputs of a row that ``width`` outputs beside each other read."""
    return (width - 1) * shape.strides[2] + (shape.kernel[2] - 1) * shape.dilations[2] + 1


def _lanes(shape: ConvShape, width: int) -> int:
    tiles = ceil_div(shape.size_out[2], width)
    return shape.batch * shape.m4 * shape.size_out[0] * shape.size_out[1] * tiles


def _fits(problem: Problem, shape: ConvShape, width: int) -> bool:
    limits = problem.limits
    packed = shape.m4 * (shape.taps + 1)
    groups = ceil_div(max(_lanes(shape, width), packed), lane_count(limits))
    rows = shape.kernel[0] * shape.kernel[1]
    return fits(groups, limits) and fits_loops(limits, rows) and fits_buffer(limits, 4 * packed)


def _cost(problem: Problem, shape: ConvShape, width: int, _: Layout, spared: int) -> float:
    """Microseconds, with ``spared`` bytes of all not moved."""
    return _time(problem, shape, width, spared) + packing_cost(problem)


def _time(problem: Problem, shape: ConvShape, width: int, spared: int) -> float:
    rows, columns = shape.kernel[0] * shape.kernel[1], shape.kernel[2]
    span = min(_span(shape, width), width * columns)
    reads = span + columns
    lanes = _lanes(shape, width)
    machine = problem.machine
    if problem.limits.kind == "cpu":
        # Vector instructions: 55 a load, 6 a product of vec4s; 60 a pixel for its store.
        steps = rows * (55 * reads + 6 * width * columns) + 60 * width + 150
        groups = ceil_div(lanes, lane_count(problem.limits))
        return machine.dispatch + machine.in_groups(groups, steps)
    products, held = 4 * width * columns, _HELD[width][columns > 3]
    work: float
    waits: float
    if machine.scalar:
        work = rows * (products + _READ * span) + _OUTSIDE
        work += (_PIXEL + 4 * epilogue_work(problem.epilogue)) * width
        waits = rows * _ROW_WAITS + _OUTSIDE_WAITS
    else:
        work, waits = rows * (products + reads + _ROW) + 2 * width, rows + 1
    busy = machine.on_simds(lanes, work, waits, machine.held(held))
    return machine.dispatch + machine.beside(busy, moved_bytes(problem) - spared)


def _emit(emitter: Emitter, shape: ConvShape, width: int) -> None:
    bits = weight_bits(emitter.problem)
    few = few_constants(emitter.problem, bits)
    if few:
        count = 4 * shape.m4 * shape.taps
        weights = pack_few(emitter, "depthwise", pack_depthwise, count, bits, 4)
        few["MULTIPLIER"] = shape.group_out
    else:
        weights = depthwise_weights(emitter, shape)
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    total = _lanes(shape, width)
    held = BYTES if few else NUMBERS
    variant = quantized_variant(emitter, shape.kernel[2], weight_format=held, folds=True)
    emitter.dispatch(
        "convolution/depthwise",
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *variant.bindings],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push=_push(shape, total, width),
        spec={
            "TX": width,
            "KERNEL": shape.kernel[2],
            "STRIDE": shape.strides[2],
            "DILATION": shape.dilations[2],
            "AXES": 3 if shape.has_depth else 2,
            **variant.spec,
            **few,
        },
        defines={**variant.defines, **({"FEW": 1} if few else {})},
        epilogue=variant.epilogue,
        flops=shape.flops,
    )


def _push(shape: ConvShape, total: int, width: int) -> dict[str, int]:
    """Push constants; those of the row but its pad are specialization constants."""
    geometry = {**shape.geometry(), **by_axis("out", shape.size_out)}
    of_the_row = ("kernel_w", "stride_w", "dilation_w")
    return {
        "total": total,
        "tiles": ceil_div(shape.size_out[2], width),
        "c4": shape.m4,
        "channels": shape.channels_out,
        "bias": shape.m4 * shape.taps,
        **{name: value for name, value in geometry.items() if name not in of_the_row},
    }


def depthwise_weights(emitter: Emitter, shape: ConvShape, *, transposed: bool = False) -> Ref:
    """Weights and bias as :func:`pack_depthwise` has them."""
    sources = constant_weights(emitter.problem)
    if sources is not None:
        return pack(emitter, "depthwise", pack_depthwise, sources)
    bias = emitter.inputs[2] if has_bias(emitter.problem) else None
    spans, w = channel_spans(shape, 1), emitter.input(1)
    return pack_on_device(emitter, spans, w, bias, transposed=transposed, depthwise=True)


def pack_depthwise(w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Weights as [c4][tap] vec4s of channels, then the bias [c4]; padding lanes are 0."""
    dtype = np.float32 if w.dtype.kind == "f" else np.int32
    channels, taps = w.shape[0], int(np.prod(w.shape[2:]))
    c4 = ceil_div(channels, 4)
    padded = np.zeros((4 * c4, taps + 1), dtype)
    padded[:channels, :taps] = w.reshape(channels, taps)
    if bias is not None:
        padded[:channels, taps] = bias
    vectors = padded.reshape(c4, 4, taps + 1).transpose(0, 2, 1)
    return np.concatenate([vectors[:, :taps].ravel(), vectors[:, taps].ravel()])
