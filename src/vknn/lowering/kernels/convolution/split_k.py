"""Convolutions in shared-memory tiles whose k several workgroups share out.

The kernel is that of :mod:`vknn.lowering.kernels.convolution.shared_memory`; who adds up what is in
:mod:`vknn.lowering.kernels.matmul.split_k`. For layers of few pixels, and first layers of large
kernels, on GPUs that have more processors than they have tiles.
"""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.packing import allows_packed, weight_blocks
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    input_layouts,
    moved_bytes,
    packing_cost,
)
from vknn.lowering.kernels.convolution.shared_memory import (
    conv_tiles,
    emit_shared,
    fits_shared,
    group_count,
    shared_cost,
    shared_weights,
    steps_of_k,
)
from vknn.lowering.kernels.convolution.tap_rows import laid_taps
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kernels.matmul.split_k import BUFFERS, SplitK, splits
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.machine import has_long_instructions, is_apple
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import Conv

#: Buffers of the kernel as it is: x, weights, y and an operand of the epilogue.
_BUFFERS = 4
#: vec4s of results of a lane that not all GPUs have place for.
_MOST_RESULTS = 16


def split_k_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile and split that may pay; none on CPUs and for integers."""
    few = problem.limits.max_storage_buffers < _BUFFERS + BUFFERS
    if few or "split-k" in problem.options.disabled:
        return []
    if not isinstance(problem.op, Conv) or not shape.whole_vectors:
        return []
    tiles = [t for t in conv_tiles(problem, shape) if fits_shared(problem, shape, t)]
    return [
        _candidate(problem, shape, tile, split)
        for tile in tiles
        if not _is_beyond(problem, shape, tile)
        for split in _splits(problem, shape, tile)
    ]


def _is_beyond(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> bool:
    """Whether 16 vec4s of results a lane are more than the device has place for.

    On Apple's GPUs registers (all of m1's spilled); on NVIDIA's code under taps in float32 (33,056
    bytes with NVK, of 32 KB).
    """
    if tile.rows * tile.cols < _MOST_RESULTS:
        return False
    long = has_long_instructions(problem.limits) and not problem.options.half
    return (long and shape.taps > 1) or is_apple(problem.limits)


def _splits(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> list[SplitK]:
    """Splits of a tile that may pay and that the device allows."""
    laid = laid_taps(problem, shape, tile.depth).shape
    groups, blocks = group_count(shape, tile), weight_blocks(laid, tile.width)
    found = splits(problem.limits, problem.machine, tile, groups, steps_of_k(laid))
    return [split for split in found if allows_packed(problem, blocks, groups * split.parts)]


def _candidate(
    problem: Problem, shape: ConvShape, tile: SharedMemoryTile, split: SplitK
) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile, split=split)
    moved, epilogue = moved_bytes(problem), epilogue_work(problem.epilogue)
    cost = shared_cost(problem, shape, tile, moved, epilogue, split=split)
    cost += packing_cost(problem)
    name = split.prefix(tile.name)
    return Candidate(name, input_layouts(problem), (Layout.C4,), emit, cost, counts=True)


def _emit(emitter: Emitter, shape: ConvShape, tile: SharedMemoryTile, split: SplitK) -> None:
    weights = shared_weights(emitter, shape, tile)
    buffers = [emitter.input(0), weights, emitter.output()]
    sums = split.bound(emitter, tile, group_count(shape, tile))
    emit_shared(emitter, shape, tile, buffers, split=sums)
