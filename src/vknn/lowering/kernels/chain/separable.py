"""Depthwise separable convolutions in one dispatch (shaders/chain/separable.comp).

Howard et al. 2017, "MobileNets": a depthwise convolution and one of a tap behind it. Apart, the
first is little but memory and a barrier. In one dispatch each workgroup computes of the depthwise
convolution what it multiplies, so tiles of few pixels and many channels are wanted: whatever
channels a workgroup leaves out, another computes the same pixels for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.chain.convolutions import (
    constants_of,
    is_depthwise,
    is_pointwise,
    pair_of,
)
from vknn.lowering.kernels.chain.gate import MOST_STEPS, step_constants
from vknn.lowering.kernels.chain.inverted_registers import MANY_TAPS
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.convolution.depthwise import pack_depthwise
from vknn.lowering.kernels.convolution.float_dots import takes_dots
from vknn.lowering.kernels.convolution.packing import (
    pack_conv,
    weight_blocks,
)
from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kernels.matmul.cooperative_tiles import cooperative_row
from vknn.lowering.kernels.matmul.float_dots import packed_for_dots
from vknn.lowering.kernels.matmul.shared_memory_tiles import DotTile, SharedMemoryTile, with_dots
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, spread
from vknn.plan import DeviceLimits

#: Most vec4s of the depthwise convolution of a lane in a round (code grows with them), and most
#: registers of its weights then.
MOST_VALUES, MOST_WEIGHTS = 2, 16
#: Pixels x channels of a workgroup: from 32x32 to 32x256, then of fewer pixels for small images.
TILES = (
    SharedMemoryTile(4, 1, 8, 8, 4),
    SharedMemoryTile(4, 1, 8, 16, 4),
    SharedMemoryTile(4, 1, 16, 16, 4),
    SharedMemoryTile(4, 1, 8, 32, 8),
    SharedMemoryTile(4, 1, 8, 64, 16),
    SharedMemoryTile(2, 1, 8, 32, 16),
    SharedMemoryTile(1, 1, 16, 8, 8),
    SharedMemoryTile(1, 1, 16, 16, 16),
    SharedMemoryTile(1, 1, 16, 32, 32),
    SharedMemoryTile(1, 1, 8, 16, 16),
    SharedMemoryTile(1, 1, 8, 32, 32),
)
#: Instructions of a lane for a tap beside its products, for a vec4 of the depthwise convolution,
#: for a round and outside of the loop; waits of a round and outside: by RADV's machine code for
#: RDNA 2. Elsewhere a tap takes two loads, which are waited for together with those of the tile.
_TAP, _VALUE, _ROUND, _OUTSIDE, _WAITS, _OUTSIDE_WAITS = 7.0, 12.0, 15.0, 100.0, 2.2, 3.0
_LOADS = 2.0
#: Those for a tap where padding takes the place of words of float16.
_TAP_OF_WORDS = 5.0
#: Instructions in the time in which AMD's shared memory gives a SIMD's share of a vec4 of floats.
_SHARED_VEC4 = 8.0
#: Waves that a SIMD has registers for.
_HELD = 8


@dataclass(frozen=True, eq=False)
class Separable:
    """Both convolutions: sizes, constants (weights and, where there is one, bias), and links."""

    depthwise: ConvShape
    pointwise: ConvShape
    first: Link
    second: Link

    @property
    def sources(self) -> tuple[np.ndarray, ...]:
        """The constants of both as the graph has them."""
        return (*constants_of(self.first), *constants_of(self.second))


def separable_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each tile that suits the sizes; none for other chains."""
    found = _separable(links)
    if found is None or "shared" in problem.options.disabled:
        return []
    half = problem.options.half
    tiles = [tile for tile in _tiles(found.second.problem) if _is_lean(tile, half)]
    tiles = [tile for tile in tiles if _fits(problem.limits, found, tile)]
    return [_candidate(problem, found, tile) for tile in tiles]


def _separable(links: Sequence[Link]) -> Separable | None:
    """The two convolutions that the links are, or None."""
    sizes = pair_of(links, is_depthwise, is_pointwise)
    return Separable(*sizes, *links) if sizes is not None else None


def _tiles(problem: Problem) -> list[SharedMemoryTile]:
    """Tiles of the second link's problem."""
    # Two rows a lane and many columns: GCN converts more than it multiplies.
    tiles = [tile for tile in TILES if tile.rows != 2 or not problem.machine.converts]
    if takes_dots(problem):
        tiles = [with_dots(tile) for tile in tiles]
    return [*tiles, *cooperative_row(problem)]


def _groups(found: Separable, tile: SharedMemoryTile) -> int:
    shape = found.pointwise
    tiles = ceil_div(shape.pixels, tile.height) * shape.batch
    return tiles * weight_blocks(shape, tile.width).count


def _numbers(found: Separable, tile: SharedMemoryTile) -> tuple[int, int]:
    """Vec4s of packed weights: of the pointwise convolution with its bias, of both."""
    pointwise = weight_blocks(found.pointwise, tile.width).total
    return pointwise, pointwise + found.depthwise.c4 * (found.depthwise.taps + 1)


def _is_lean(tile: SharedMemoryTile, half: bool) -> bool:
    """True where lanes have as many values each, and registers for them (RADV, NVK)."""
    values, rest = divmod(tile.depth * tile.height, tile.lanes)
    weights = 4 * tile.depth * tile.width // tile.lanes * (2 if half else 4)
    even = not rest and not tile.lanes % tile.height
    return even and 1 <= values <= MOST_VALUES and weights <= MOST_WEIGHTS


def _fits(limits: DeviceLimits, found: Separable, tile: SharedMemoryTile) -> bool:
    wide = 2 * found.pointwise.m4 > tile.width or tile is TILES[0] or tile.width <= 8
    return (
        wide
        and tile.fits(limits)
        and fits(_groups(found, tile), limits)
        and fits_loops(limits, ceil_div(found.depthwise.c4, tile.depth))
        and fits_buffer(limits, 4 * _numbers(found, tile)[1])
    )


def _candidate(problem: Problem, found: Separable, tile: SharedMemoryTile) -> Candidate:
    emit = functools.partial(_emit, found=found, tile=tile)
    name = f"separable-{tile.name}x{tile.depth}"
    inputs = [Layout.C4, *(None for _ in problem.inputs[1:])]
    for operand in found.second.operands:
        inputs[operand] = Layout.C4
    cost = _cost(problem, found, tile)
    return Candidate(name, tuple(inputs), (Layout.C4,), emit, cost)


def _cost(problem: Problem, found: Separable, tile: SharedMemoryTile) -> float:
    machine, groups = problem.machine, _groups(found, tile)
    shape, link = found.depthwise, found.first
    rounds = ceil_div(shape.c4, tile.depth)
    values = rounds * tile.depth * tile.height / tile.lanes
    if machine.scalar:
        tap = _TAP_OF_WORDS if isinstance(tile, DotTile) else _TAP
        each = shape.taps * (4 + tap) + _VALUE + 4 * epilogue_work(link.problem.epilogue)
        work, waits = values * each + rounds * _ROUND + _OUTSIDE, rounds * _WAITS + _OUTSIDE_WAITS
    else:
        work, waits = values * shape.taps * (4 + _LOADS), 0.0
    busy = machine.on_simds(groups * tile.lanes, work, waits, machine.held(_HELD))
    busy += tile.cost(machine, groups, shape.c4, problem.half_sums)
    elements = 4 * tile.rows * tile.cols * epilogue_work(found.second.problem.epilogue)
    busy += machine.on_simds(groups * tile.lanes, elements, 0.0)
    if machine.scalar:
        reads = rounds * tile.depth * (tile.rows + 4 * tile.cols)
        each = _SHARED_VEC4 / 2 if isinstance(tile, DotTile) else _SHARED_VEC4
        busy = max(busy, machine.on_simds(groups * tile.lanes, reads * each, 0.0))
    half = problem.options.half
    types = [link.problem.input(0), *problem.outputs, *found.second.problem.epilogue.operands]
    moved = sum(storage_bytes(t, Layout.C4, half=half) for t in types)
    moved += _numbers(found, tile)[1] * (8 if half else 16)
    return machine.dispatch + machine.beside(busy, moved)


def _emit(emitter: Emitter, found: Separable, tile: SharedMemoryTile) -> None:
    own = found.second.alone(emitter, emitter.input(0))
    depthwise, pointwise = found.depthwise, found.pointwise
    pack = functools.partial(pack_separable, found, tile)
    key = f"separable.{tile.width}" + (".dots" if isinstance(tile, DotTile) else "")
    weights = own.weight(key, pack, *found.sources)
    groups, blocks = _groups(found, tile), weight_blocks(pointwise, tile.width)
    behind, _ = _numbers(found, tile)
    geometry = depthwise.geometry()
    names = ("in_h", "in_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_h", "pad_w")
    own.dispatch(
        "chain/separable",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push={
            "pixels": pointwise.pixels,
            "tiles": ceil_div(pointwise.pixels, tile.height),
            "total": groups,
            "c4": depthwise.c4,
            "m4": pointwise.m4,
            "blocks": blocks.count,
            "channels_in": depthwise.channels_out,
            "channels": pointwise.channels_out,
            "out_w": pointwise.size_out[2],
            "bias": blocks.weights,
            "depthwise": behind,
            "depthwise_bias": behind + depthwise.c4 * depthwise.taps,
            **{name: geometry[name] for name in names},
        },
        spec={
            **tile.spec(down_a=True, down_b=False, whole=False),
            "KERNEL_H": depthwise.kernel[1],
            "KERNEL_W": depthwise.kernel[2],
            "BY_ROWS": int(depthwise.taps > MANY_TAPS and not emitter.problem.machine.scalar),
            **step_constants(found.first.problem.epilogue.steps, 0),
            **step_constants(found.second.problem.epilogue.steps, MOST_STEPS),
        },
        defines=tile.defines(emitter.problem.half_sums),
        epilogue=1,
        with_steps=False,
        access="storage",
        flops=depthwise.flops + pointwise.flops,
    )


def pack_separable(found: Separable, tile: SharedMemoryTile) -> np.ndarray:
    """Weights and bias of the pointwise convolution (:func:`pack_conv`), then of the depthwise."""
    packed = pack_conv(1, tile.width, *constants_of(found.second))
    if tile.along_k:
        count = 4 * weight_blocks(found.pointwise, tile.width).weights
        packed = packed_for_dots(packed, count, tile.width)
    return np.concatenate([packed, pack_depthwise(*constants_of(found.first))])
