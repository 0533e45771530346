"""Weights of convolutions as kernels of products read them: in blocks of output channels."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    Triple,
    constant_weights,
    has_bias,
    triple,
)
from vknn.lowering.kernels.matmul.float_dots import packed_for_dots
from vknn.lowering.kernels.quantized.few_bits import WHOLE, pack_few
from vknn.lowering.kernels.quantized.requantize import DOTS, NUMBERS, pack
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, lane_count, spread


@dataclass(frozen=True)
class WeightBlocks:
    """Blocks of output channels: ``of_group`` in a group, ``count`` in an image."""

    of_group: int
    count: int
    weights: int  # vec4s of packed weights before the bias
    total: int  # with the bias


def weight_blocks(shape: ConvShape, width: int) -> WeightBlocks:
    """The blocks of ``width`` vec4s that output channels are cut into."""
    of_group = ceil_div(ceil_div(shape.group_out, 4), width)
    count = of_group * shape.group
    weights = count * shape.taps * ceil_div(shape.group_in, 4) * 4 * width
    return WeightBlocks(of_group, count, weights, weights + count * width)


def allows_packed(problem: Problem, blocks: WeightBlocks, groups: int) -> bool:
    """True where the device allows the workgroups, also for packing, and the packed weights."""
    limits = problem.limits
    if constant_weights(problem) is None:
        groups = max(groups, ceil_div(blocks.total, lane_count(limits)))
    return fits_buffer(limits, 4 * blocks.total) and fits(groups, limits)


def packed_weights(
    emitter: Emitter,
    shape: ConvShape,
    width: int,
    weight_format: str = NUMBERS,
    run: int = 1,
    bits: int = WHOLE,
) -> Ref:
    """Weights and bias in blocks of ``width`` vec4s of output channels (:func:`pack_conv`).

    ``run``: k of a column that lie beside each other, of constant weights of floats
    (:func:`vknn.lowering.kernels.matmul.float_dots.along_k`). ``bits`` of a weight: with few the
    bias is left out. Constant weights are padded with 0 to the kernel of ``shape``.
    """
    sources = constant_weights(emitter.problem)
    if sources is None:
        return _packed_on_device(emitter, shape, width)
    key = f"conv.{width}.{shape.group}"
    make = functools.partial(pack_conv, shape.group, width)
    if shape.kernel != triple(sources[0].shape[2:], 1):
        key = f"{key}.{'x'.join(map(str, shape.kernel))}"
        make = functools.partial(make, kernel=shape.kernel)
    count = 4 * weight_blocks(shape, width).weights
    if bits < WHOLE:
        dots = weight_format == DOTS
        return pack_few(emitter, key, make, count, bits, 4 * width, by_dots=dots)
    if run > 1:
        return emitter.weight(
            f"{key}.run{run}", lambda: packed_for_dots(make(*sources), count, width, run), *sources
        )
    return pack(emitter, key, make, sources, weight_format, 4 * width)


def pack_conv(
    group: int,
    block: int,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    kernel: Triple | None = None,
) -> np.ndarray:
    """Weights as [block][tap][c4][4][``block`` vec4s of output channels], then the bias.

    A block has ``block`` vec4s of output channels of one group; the bias is [block][channels].
    Padding lanes are 0, and so are the taps that ``kernel`` has more than the weights.
    """
    dtype = np.float32 if w.dtype.kind == "f" else np.int32
    if kernel is not None:
        own = triple(w.shape[2:], 1)
        behind = ((0, most - taps) for most, taps in zip(kernel, own, strict=True))
        w = np.pad(w.reshape(*w.shape[:2], *own), ((0, 0), (0, 0), *behind))
    group_out, group_in, taps = w.shape[0] // group, w.shape[1], int(np.prod(w.shape[2:]))
    blocks, c4 = ceil_div(group_out, 4 * block), ceil_div(group_in, 4)
    padded = np.zeros((group, blocks * 4 * block, 4 * c4, taps), dtype)
    padded[:, :group_out, :group_in] = w.reshape(group, group_out, group_in, taps)
    split = padded.reshape(group * blocks, 4 * block, 4 * c4, taps).transpose(0, 3, 2, 1)
    biases = np.zeros((group, blocks * 4 * block), dtype)
    if bias is not None:
        biases[:, :group_out] = bias.reshape(group, group_out)
    return np.concatenate([split.ravel(), biases.ravel()])


def _packed_on_device(emitter: Emitter, shape: ConvShape, width: int) -> Ref:
    """Weights known only at run time, packed by a dispatch of their own."""
    blocks = weight_blocks(shape, width)
    w, limits = emitter.input(1), emitter.problem.limits
    bias = emitter.inputs[2] if has_bias(emitter.problem) else None
    dtype = DType.FLOAT32 if w.is_float else DType.INT32
    packed = emitter.scratch("packed", 4 * blocks.total, dtype=dtype, as_tensor=True)
    lanes = lane_count(limits)
    emitter.dispatch(
        "convolution/pack_weights",
        [read1(w), read1(bias or w), write(packed)],
        groups=spread(ceil_div(blocks.total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "weights": blocks.weights,
            "total": blocks.total,
            "group_blocks": blocks.of_group,
            "group_in": shape.group_in,
            "group_out": shape.group_out,
            "in4": ceil_div(shape.group_in, 4),
            "taps": shape.taps,
        },
        spec={"TM": width, "HAS_BIAS": int(bias is not None)},
        defines={"ELEM": int(not w.is_float)},
        label=f"{emitter.label} pack",
    )
    return packed
