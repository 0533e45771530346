"""Convolution with one output pixel, as a row times a matrix, for GPUs (shaders/matmul/row.comp).

The kernel covers the input, so an image in C4 is one row of the product. There are no pixels to
divide among lanes: they share the sum over channels and taps instead.
"""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights, input_layouts
from vknn.lowering.kernels.matmul.gemm import BatchAxis, Gemm, pack_columns
from vknn.lowering.kernels.matmul.kernels import Packed, Product, emit_row, row_split
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import allows_groups, fits_buffer, fits_loops
from vknn.ops.convolution.conv import Conv


def row_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """One candidate, or none: on CPUs, for more pixels, and with weights known at run time."""
    if not isinstance(problem.op, Conv) or problem.limits.kind == "cpu" or not _is_row(shape):
        return []
    gemm, limits = _gemm(shape), problem.limits
    split = row_split(gemm, limits)
    packed = ceil_div(shape.m4, split.block) * split.block * 4 * (gemm.k + 1)
    placed = allows_groups(split.groups(gemm), limits) and fits_buffer(limits, packed)
    steps = ceil_div(gemm.k // 4, split.lanes_k)
    if constant_weights(problem) is None or not placed or not fits_loops(limits, steps):
        return []
    size = 2 if problem.options.half else 4
    cost = problem.machine.dispatch + split.cost(problem.machine, gemm, size, problem.converts)
    emit = functools.partial(_emit, shape=shape, gemm=gemm)
    return [Candidate("row", input_layouts(problem), (Layout.C4,), emit, cost)]


def _is_row(shape: ConvShape) -> bool:
    """True where the kernel has the input's size, so that each tap reads one pixel."""
    whole = shape.kernel == shape.size_in and shape.pads == (0, 0, 0)
    return shape.group == 1 and shape.pixels == 1 and whole


def _gemm(shape: ConvShape) -> Gemm:
    k, n = 4 * shape.c4 * shape.taps, 4 * shape.m4
    images = (BatchAxis(shape.batch, k, 0, n),) if shape.batch > 1 else ()
    return Gemm(1, n, k, k, 1, n, 1, n, images)


def _emit(emitter: Emitter, shape: ConvShape, gemm: Gemm) -> None:
    sources = constant_weights(emitter.problem)
    assert sources is not None
    block = min(row_split(gemm, emitter.problem.limits).block, shape.m4)
    ref = emitter.weight(f"row{block}", lambda: pack_row(block, *sources), *sources)
    panel = gemm.k * block
    bias = ceil_div(shape.m4, block) * panel if len(sources) > 1 else -1
    b = Packed(ref, block, panel, bias)
    last = shape.channels_out % 4
    emit_row(emitter, Product(gemm, emitter.input(0), b, emitter.output()), last=last)


def pack_row(block: int, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Weights as [panel][c4][tap][4][``block`` vec4s of output channels], then the bias.

    Padding lanes and padding vec4s are 0.
    """
    channels_out, channels_in, taps = w.shape[0], w.shape[1], int(np.prod(w.shape[2:]))
    c4 = ceil_div(channels_in, 4)
    padded = np.zeros((channels_out, 4 * c4, taps), np.float32)
    padded[:, :channels_in] = w.reshape(channels_out, channels_in, taps)
    rows = padded.reshape(channels_out, c4, 4, taps).transpose(1, 3, 2, 0)
    return pack_columns(rows.reshape(-1, channels_out), bias, block)
