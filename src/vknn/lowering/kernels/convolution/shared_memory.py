"""Convolution in shared-memory tiles, for GPUs (shaders/convolution/shared.comp)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.lowering.kernels.convolution.float_dots import packs_along_k, takes_dots
from vknn.lowering.kernels.convolution.packing import (
    allows_packed,
    packed_weights,
    weight_blocks,
)
from vknn.lowering.kernels.convolution.register_tiles import (
    push_constants,
    tap_axes,
)
from vknn.lowering.kernels.convolution.scale import UNSCALED, InputScale
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    input_layouts,
    moved_bytes,
    packing_cost,
)
from vknn.lowering.kernels.convolution.tap_rows import LaidTaps, counts_taps, laid_taps
from vknn.lowering.kernels.convolution.tile_times import COUNTED_EPILOGUE
from vknn.lowering.kernels.matmul.cooperative_tiles import (
    with_columns_along_k,
    with_columns_in_memory,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile, with_dots
from vknn.lowering.kernels.matmul.split_k import SplitK, SplitSums
from vknn.lowering.kernels.matmul.workgroup_tiles import shared_memory_tiles
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_loops, spread
from vknn.ops.convolution.conv import Conv

#: Waits of a round for vec4s of a scale on RDNA; GCN has as many loads and more to do meanwhile.
_SCALE_WAITS = 1.25
#: vec4s of k of rounds that may be known to be a tap's only one.
_SHORT_ROUND = 16


def shared_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile that suits the sizes; none on CPUs and for integers."""
    if not isinstance(problem.op, Conv) or not shape.whole_vectors:
        return []
    found = conv_tiles(problem, shape)
    return [_candidate(problem, shape, t) for t in found if fits_shared(problem, shape, t)]


def group_count(shape: ConvShape, tile: SharedMemoryTile) -> int:
    """Workgroups, one a tile of the result."""
    blocks = weight_blocks(shape, tile.width).count
    return ceil_div(shape.pixels, tile.height) * blocks * shape.batch


def steps_of_k(shape: ConvShape) -> int:
    """vec4s of k: taps times vec4s of a group's input channels."""
    return shape.taps * ceil_div(shape.group_in, 4)


def conv_tiles(problem: Problem, shape: ConvShape) -> list[SharedMemoryTile]:
    """Tiles that suit the sizes."""

    def whole_steps(depth: int) -> int:
        laid = laid_taps(problem, shape, depth)
        return steps_of_k(laid.shape) if laid.whole else 0

    found = shared_memory_tiles(problem, shape.pixels, ceil_div(shape.group_out, 4))
    if packs_along_k(problem):
        found = [with_columns_along_k(tile) for tile in found]
        found = [with_columns_in_memory(problem.limits, tile, whole_steps) for tile in found]
    return [with_dots(tile) for tile in found] if takes_dots(problem) else found


def fits_shared(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> bool:
    """True where the device allows the dispatch and the packed weights."""
    laid = laid_taps(problem, shape, tile.depth).shape
    loops = fits_loops(problem.limits, ceil_div(steps_of_k(laid), tile.depth))
    blocks = weight_blocks(laid, tile.width)
    return loops and allows_packed(problem, blocks, group_count(shape, tile))


def _candidate(problem: Problem, shape: ConvShape, tile: SharedMemoryTile) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile)
    moved, epilogue = moved_bytes(problem), epilogue_work(problem.epilogue)
    cost = shared_cost(problem, shape, tile, moved, epilogue) + packing_cost(problem)
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def shared_cost(
    problem: Problem,
    shape: ConvShape,
    tile: SharedMemoryTile,
    moved: int,
    epilogue: float = 0.0,
    scaled: float = 0.0,
    split: SplitK | None = None,
) -> float:
    """Microseconds of the dispatch, estimated.

    ``moved``: bytes of the buffers. ``epilogue``: instructions for an element of the result.
    ``scaled``: instructions of a round that multiply x by a scale. ``split``: of k.
    """
    laid = laid_taps(problem, shape, tile.depth)
    machine, groups, steps = problem.machine, group_count(shape, tile), steps_of_k(laid.shape)
    ending, around = 0.0, None
    if split is not None:
        ending, around = split.last(machine, tile), split.around(tile)
        moved += split.moved(tile, groups)
        groups, steps = groups * split.parts, split.share(tile, steps)
    half = problem.half_sums
    taps, whole = not shape.is_pointwise, laid.whole
    waits = _SCALE_WAITS if scaled and machine.scalar and not machine.converts else 0.0
    counted, beside = counts_taps(shape) and not laid.row, (scaled, waits)
    busy = tile.cost(machine, groups, steps, half, taps, whole, beside, counted, around)
    part = 1.0 if machine.scalar else COUNTED_EPILOGUE
    elements = 4 * tile.rows * tile.cols * epilogue * part
    busy += machine.on_simds(groups * tile.lanes, elements, 0.0)
    return machine.dispatch + machine.beside(busy + ending, moved)


def _constants(
    shape: ConvShape, laid: LaidTaps, tile: SharedMemoryTile, scalar: bool
) -> dict[str, int]:
    """Specialization constants of shared.comp."""
    return {
        **tile.spec(down_a=True, down_b=False, whole=laid.whole, scalar=scalar),
        "AXES": tap_axes(shape),
        "WRAPS": 1 if laid.whole else _wraps(shape, tile),
        "TAPS_W": 0 if laid.row or not counts_taps(shape) else shape.kernel[2],
        "TAP_ROW": laid.row,
        "ONE_ROUND": int(_has_one_round(shape, laid, tile)),
        "OUTSIDE": int(laid.shape.kernel != shape.kernel or shape.has_padding),
    }


def _has_one_round(shape: ConvShape, laid: LaidTaps, tile: SharedMemoryTile) -> bool:
    """True where each tap is one round, whose code is shorter without others.

    But for long ones, which RADV schedules with more moves then: 308 cycles in place of 286.
    """
    taps = laid.whole and not laid.row and not shape.is_pointwise
    return taps and steps_of_k(shape) == shape.taps * tile.depth and tile.depth <= _SHORT_ROUND


def _wraps(shape: ConvShape, tile: SharedMemoryTile) -> int:
    """Most taps that a lane's step along k leaves behind: each costs several instructions."""
    if shape.is_pointwise or counts_taps(shape):
        return 1
    step, channels = max(1, tile.lanes // tile.height), ceil_div(shape.group_in, 4)
    return (channels - 1 + step) // channels


def _emit(emitter: Emitter, shape: ConvShape, tile: SharedMemoryTile) -> None:
    weights = shared_weights(emitter, shape, tile)
    emit_shared(emitter, shape, tile, [emitter.input(0), weights, emitter.output()])


def shared_weights(emitter: Emitter, shape: ConvShape, tile: SharedMemoryTile) -> Ref:
    """Weights and bias as the tile's rounds read them."""
    laid = laid_taps(emitter.problem, shape, tile.depth)
    return packed_weights(emitter, laid.shape, tile.width, run=tile.run)


def emit_shared(
    emitter: Emitter,
    shape: ConvShape,
    tile: SharedMemoryTile,
    buffers: Sequence[Ref],
    *,
    label: str | None = None,
    with_steps: bool = True,
    scale: InputScale = UNSCALED,
    split: SplitSums | None = None,
) -> None:
    """A dispatch of shared.comp on x, packed weights and y (``buffers``)."""
    x, weights, y = buffers
    groups = group_count(shape, tile) * (1 if split is None else split.parts)
    parts = [] if split is None else split.bindings
    laid = laid_taps(emitter.problem, shape, tile.depth)
    push = push_constants(laid.shape, ceil_div(shape.pixels, tile.height), groups, tile.width)
    emitter.dispatch(
        "convolution/shared",
        [read4(x), read4(weights), write(y), *scale.bindings, *parts],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push={**push, **by_axis("kernel", shape.kernel)},
        spec={
            **_constants(shape, laid, tile, emitter.problem.machine.scalar),
            **scale.steps,
            **({} if split is None else split.spec),
        },
        defines={
            **tile.defines(emitter.problem.half_sums),
            **scale.defines,
            **({} if split is None else split.defines),
        },
        epilogue=1,
        with_steps=with_steps,
        access="storage",
        flops=shape.flops,
        label=label,
    )
