"""Convolution in shared-memory tiles, for GPUs (shaders/convolution/shared.comp)."""

from __future__ import annotations

import functools

from vknn.lowering.kernels.convolution.register_tiles import (
    allows_packed,
    packed_weights,
    push_constants,
    tap_axes,
    weight_blocks,
)
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    input_layouts,
    moved_bytes,
    packing_cost,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import (
    SharedMemoryTile,
    shared_memory_tiles,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_loops, spread
from vknn.ops.convolution.conv import Conv


def shared_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile that suits the sizes; none on CPUs and for integers."""
    if not isinstance(problem.op, Conv) or not shape.whole_vectors:
        return []
    found = shared_memory_tiles(problem, shape.pixels, ceil_div(shape.group_out, 4))
    return [_candidate(problem, shape, t) for t in found if _fits(problem, shape, t)]


def _groups(shape: ConvShape, tile: SharedMemoryTile) -> int:
    return (
        ceil_div(shape.pixels, tile.height) * weight_blocks(shape, tile.width).count * shape.batch
    )


def _steps(shape: ConvShape) -> int:
    """vec4s of k: taps times vec4s of a group's input channels."""
    return shape.taps * ceil_div(shape.group_in, 4)


def _fits(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> bool:
    loops = fits_loops(problem.limits, ceil_div(_steps(shape), tile.depth))
    blocks = weight_blocks(shape, tile.width)
    return loops and allows_packed(problem, blocks, _groups(shape, tile))


def _candidate(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile)
    half = problem.options.half_sums
    cost = problem.machine.dispatch + packing_cost(problem)
    groups, steps = _groups(shape, tile), _steps(shape)
    machine = problem.machine
    busy = tile.cost(machine, groups, steps, half, taps=not shape.is_pointwise)
    if machine.scalar:
        elements = 4 * tile.rows * tile.cols * epilogue_work(problem.epilogue)
        busy += machine.on_simds(groups * tile.lanes, elements, 0.0)
    cost += machine.beside(busy, moved_bytes(problem))
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _emit(emitter: Emitter, shape: ConvShape, tile: SharedMemoryTile) -> None:
    weights = packed_weights(emitter, shape, tile.width)
    groups = _groups(shape, tile)
    emitter.dispatch(
        "convolution/shared",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push=push_constants(shape, ceil_div(shape.pixels, tile.height), groups, tile.width),
        spec={**tile.spec(down_a=True, down_b=False), "AXES": tap_axes(shape)},
        defines=tile.defines(emitter.problem.options.half_sums),
        epilogue=1,
        access="storage",
        flops=shape.flops,
    )
