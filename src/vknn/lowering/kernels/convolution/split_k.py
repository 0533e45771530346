"""Convolutions in shared-memory tiles whose k several workgroups share out.

The kernel is that of :mod:`vknn.lowering.kernels.convolution.shared_memory`; who adds up what is in
:mod:`vknn.lowering.kernels.matmul.split_k`. For layers of few pixels, and first layers of large
kernels, on GPUs that have more processors than they have tiles.
"""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.packing import allows_packed, packed_weights, weight_blocks
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
    steps_of_k,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kernels.matmul.split_k import BUFFERS, SplitK, splits
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.machine import has_long_instructions
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import Conv

#: Buffers of the kernel as it is: x, weights, y and an operand of the epilogue.
_BUFFERS = 4
#: vec4s of results of a lane whose products under taps fill nearly all that code may take.
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
        if not _is_long(problem, shape, tile)
        for split in _splits(problem, shape, tile)
    ]


def _is_long(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> bool:
    """Whether code would be beyond 32 KB (with NVK: 33,056 bytes)."""
    is_full = tile.rows * tile.cols >= _MOST_RESULTS and shape.taps > 1
    return is_full and has_long_instructions(problem.limits) and not problem.options.half


def _splits(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> list[SplitK]:
    """Splits of a tile that may pay and that the device allows."""
    groups, blocks = group_count(shape, tile), weight_blocks(shape, tile.width)
    found = splits(problem.limits, problem.machine, tile, groups, steps_of_k(shape))
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
    weights = packed_weights(emitter, shape, tile.width, run=tile.run)
    buffers = [emitter.input(0), weights, emitter.output()]
    sums = split.bound(emitter, tile, group_count(shape, tile))
    emit_shared(emitter, shape, tile, buffers, split=sums)
