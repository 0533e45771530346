"""Convolution whose output is one pixel: a row times a matrix, for GPUs (shaders/matmul/row.comp).

All of the input is under the kernel, so in C4 an image is one row, and there are no pixels that
lanes could have side by side: they share the sum over channels and taps instead.
"""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights, input_layouts
from vknn.lowering.kernels.matmul.gemm import Axis, Product, allows_groups, pack_columns
from vknn.lowering.kernels.matmul.kernels import Packed, emit_row, row_split
from vknn.lowering.kernels.matmul.shared_memory_tiles import BARRIER, HELD, LOAD, in_waves
from vknn.lowering.kit.candidate import DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.convolution.conv import Conv


def row_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """One candidate, or none: on CPUs, for more pixels, and with weights known at run time."""
    if not isinstance(problem.op, Conv) or problem.limits.kind == "cpu" or not _is_row(shape):
        return []
    product, limits = _product(shape), problem.limits
    split = row_split(product, limits)
    packed = ceil_div(shape.m4, split.block) * split.block * 4 * (product.k + 1)
    placed = allows_groups(split.groups(product), limits) and fits_buffer(limits, packed)
    steps = ceil_div(product.k // 4, split.lanes_k)
    if constant_weights(problem) is None or not placed or not fits_loops(limits, steps):
        return []
    groups = ceil_div(shape.m4, split.block) * shape.batch
    work = steps * (16 + 5 * LOAD) + HELD * split.lanes_k + BARRIER
    cost = DISPATCH_COST + in_waves(groups * split.lanes_n * split.lanes_k, work)
    emit = functools.partial(_emit, shape=shape, product=product)
    return [Candidate("row", input_layouts(problem), (Layout.C4,), emit, cost)]


def _is_row(shape: ConvShape) -> bool:
    """True where each tap meets its own input pixel, and there is no other."""
    whole = shape.kernel == shape.size_in and shape.pads == (0, 0, 0)
    return shape.group == 1 and shape.pixels == 1 and whole


def _product(shape: ConvShape) -> Product:
    k, n = 4 * shape.c4 * shape.taps, 4 * shape.m4
    images = (Axis(shape.batch, k, 0, n),) if shape.batch > 1 else ()
    return Product(1, n, k, k, 1, n, 1, n, images)


def _emit(emitter: Emitter, shape: ConvShape, product: Product) -> None:
    sources = constant_weights(emitter.problem)
    assert sources is not None
    block = min(row_split(product, emitter.problem.limits).block, shape.m4)
    ref = emitter.weight(f"row{block}", lambda: pack_row(block, *sources), *sources)
    panel = product.k * block
    bias = ceil_div(shape.m4, block) * panel if len(sources) > 1 else -1
    b = Packed(ref, block, panel, bias)
    last = shape.channels_out % 4
    emit_row(emitter, product, emitter.input(0), b, emitter.output(), last=last)


def pack_row(block: int, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """[panel][c4][tap][4][``block`` vec4s of output channels], then the bias.

    What is missing of a vec4 or a block is 0.
    """
    channels_out, channels_in, taps = w.shape[0], w.shape[1], int(np.prod(w.shape[2:]))
    c4 = ceil_div(channels_in, 4)
    padded = np.zeros((channels_out, 4 * c4, taps), np.float32)
    padded[:, :channels_in] = w.reshape(channels_out, channels_in, taps)
    rows = padded.reshape(channels_out, c4, 4, taps).transpose(1, 3, 2, 0)
    return pack_columns(rows.reshape(-1, channels_out), bias, block)
