"""Convolutions of one tap and depthwise ones behind them as one dispatch, on GPUs.

shaders/chain/expanded.comp. The first two layers of inverted residual blocks (Sandler et al. 2018,
"MobileNetV2"), behind which squeeze and excitation may stand. Each workgroup computes a tile of few
channels and holds in shared memory what lies between both; neighbouring tiles overlap there,
so tiles as large as the image, or a good part of it, are wanted.
"""

from __future__ import annotations

import functools
import math
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
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.convolution.depthwise import pack_depthwise
from vknn.lowering.kernels.convolution.float_dots import takes_dots
from vknn.lowering.kernels.convolution.packing import pack_conv, weight_blocks
from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kernels.convolution.tile import ConvTile, round_steps
from vknn.lowering.kernels.convolution.tile_times import COUNTED_EPILOGUE, TileWork
from vknn.lowering.kernels.matmul.float_dots import packed_for_dots
from vknn.lowering.kernels.matmul.shared_memory_tiles import DOT_WORK, FLOAT_DOTS
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, spread
from vknn.plan import DeviceLimits

#: Pixels and vec4s of channels of a lane in the first convolution, and lanes of a workgroup.
SIZES = ((1, 1), (1, 4), (2, 2), (4, 1), (4, 2))
LANES = (64, 256)
#: Most taps that a lane adds up.
MOST_PRODUCTS = 100
#: Most instructions by estimate, on AMD and elsewhere: so code stays below 16 KB with RADV (15 KB
#: for 2,154), below 32 KB with NVK, where each takes 16 bytes (30 KB for 1,029).
MOST_INSTRUCTIONS = 2200, 1050
#: The same of float16 on GCN, which makes float32 of it first (16.1 KB for 1,365): beyond, a round
#: has one vec4 of channels.
_MOST_CONVERTED = 1350
#: Most part of the shared memory that a workgroup takes: others are to run beside it.
_SHARE = 0.5
#: Instructions of the depthwise convolution by RADV's code: for a tap's place and for its value
#: beside the products, for a vec4 and outside of all loops; its waits.
_PLACE, _VALUE, _EACH, _OUTSIDE, _WAITS = 7.0, 3.0, 20.0, 60.0, 2.5
#: Elsewhere, where times are modelled by accesses and multiply-adds: a tap's value and weights,
#: those of a vec4; what is loaded outside of loops is waited for with the first.
_ACCESSES, _EACH_ACCESSES = 2.0, 3.0
#: Waves that a SIMD has registers for.
_HELD = 8


@dataclass(frozen=True)
class FieldTile:
    """A tile of ``height`` x ``width`` pixels of the result, and the field that it reads.

    ``lanes``: of a workgroup, each of which computes ``lane`` of the field at a time.
    """

    lane: ConvTile
    height: int
    width: int
    field: tuple[int, int]

    @property
    def pixels(self) -> int:
        """Pixels of the tile."""
        return self.height * self.width

    @property
    def rounds(self) -> int:
        """Pixels of the tile for each lane."""
        return ceil_div(self.pixels, self.lane.lanes)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a workgroup."""
        return 16 * self.lane.block * (math.prod(self.field) + 1)

    @property
    def name(self) -> str:
        """The candidate's name."""
        lane = self.lane
        kind = "dots" if lane.float_dots else "tile"
        return f"expanded-{kind}{lane.pixels}x{lane.block}x{lane.lanes}"


@dataclass(frozen=True, eq=False)
class Expanded:
    """Both convolutions: their sizes and links."""

    pointwise: ConvShape
    depthwise: ConvShape
    first: Link
    second: Link

    @property
    def sources(self) -> tuple[np.ndarray, ...]:
        """The constants of both as the graph has them."""
        return (*constants_of(self.first), *constants_of(self.second))

    def tiles(self, tile: FieldTile) -> tuple[int, int]:
        """Tiles below and beside each other in an image."""
        _, height, width = self.depthwise.size_out
        return ceil_div(height, tile.height), ceil_div(width, tile.width)

    def groups(self, tile: FieldTile) -> int:
        """Workgroups."""
        blocks = ceil_div(self.depthwise.c4, tile.lane.block)
        return self.depthwise.batch * math.prod(self.tiles(tile)) * blocks

    def numbers(self, tile: FieldTile) -> tuple[int, int]:
        """Vec4s of packed weights: of the first convolution with its bias, of both."""
        pointwise = weight_blocks(self.pointwise, tile.lane.block).total
        return pointwise, pointwise + self.depthwise.c4 * (self.depthwise.taps + 1)


def expanded_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each size of a lane's tile and a workgroup; none for other chains."""
    found = _expanded(links)
    if found is None or "shared" in problem.options.disabled:
        return []
    dots = takes_dots(found.first.problem)
    if problem.half_sums and problem.machine.few_registers:
        return []  # spills with Intel's compiler
    lanes = (ConvTile(*size, n, float_dots=dots) for n in LANES for size in SIZES)
    tiles = [tile for lane in lanes if (tile := _tile(found.depthwise, lane))]
    tiles = [tile for tile in tiles if _fits(problem.limits, found, tile)]
    return [_candidate(problem, found, tile) for tile in tiles]


def _expanded(links: Sequence[Link]) -> Expanded | None:
    """The two convolutions that the links are, or None."""
    sizes = pair_of(links, is_pointwise, is_depthwise)
    return Expanded(*sizes, *links) if sizes is not None else None


@functools.cache
def _tile(shape: ConvShape, lane: ConvTile) -> FieldTile | None:
    """The tile that divides an image into the fewest of those whose fields the lanes hold."""
    _, height, width = shape.size_out
    found = []
    for across in range(1, min(width, lane.lanes) + 1):
        room = lane.lanes * lane.pixels // _field(shape, 2, across)
        reach = (shape.kernel[1] - 1) * shape.dilations[1] + 1
        down = height if room >= shape.size_in[1] else (room - reach) // shape.strides[1] + 1
        if down >= 1:
            down = ceil_div(height, ceil_div(height, min(down, height)))
            field = (_field(shape, 1, down), _field(shape, 2, across))
            count = ceil_div(height, down) * ceil_div(width, across)
            found.append((count, math.prod(field), down, across, field))
    if not found:
        return None
    _, _, down, across, field = min(found)
    return FieldTile(lane, down, across, field)


def _field(shape: ConvShape, axis: int, tile: int) -> int:
    """Pixels along an axis of the input that a tile reads."""
    reach = (tile - 1) * shape.strides[axis] + (shape.kernel[axis] - 1) * shape.dilations[axis] + 1
    return min(reach, shape.size_in[axis])


def _fits(limits: DeviceLimits, found: Expanded, tile: FieldTile) -> bool:
    lanes = tile.lane.lanes
    return (
        lanes <= min(limits.max_group_invocations, limits.max_group_size[0])
        and tile.shared_bytes <= _SHARE * limits.shared_memory
        and fits(found.groups(tile), limits)
        and fits_loops(limits, found.pointwise.c4 + 1)
        and tile.rounds * tile.lane.block * found.depthwise.taps <= MOST_PRODUCTS
        and _instructions(found, tile, _steps(found, tile))
        <= MOST_INSTRUCTIONS[not machine_of(limits).scalar]
        and fits_buffer(limits, 4 * found.numbers(tile)[1])
    )


def _instructions(found: Expanded, tile: FieldTile, steps: int) -> float:
    """Estimated instructions of the kernel, in which everything is unrolled."""
    lane, taps = tile.lane, found.depthwise.taps
    ends = (found.first.problem.epilogue, found.second.problem.epilogue)
    first, second = (4 * epilogue_work(end) for end in ends)
    sums = steps * lane.pixels * lane.block * (8 if lane.float_dots else 16)
    values = lane.block * (taps * (4 + _VALUE) + second + _EACH)
    return sums + lane.pixels * lane.block * first + tile.rounds * (taps * _PLACE + values)


def _candidate(problem: Problem, found: Expanded, tile: FieldTile) -> Candidate:
    emit = functools.partial(_emit, found=found, tile=tile)
    inputs = [Layout.C4, *(None for _ in problem.inputs[1:])]
    for operand in found.second.operands:
        inputs[operand] = Layout.C4
    return Candidate(tile.name, tuple(inputs), (Layout.C4,), emit, _cost(problem, found, tile))


def _steps(found: Expanded, tile: FieldTile) -> int:
    """vec4s of channels whose loads stand together."""
    problem, steps = found.first.problem, max(1, round_steps(found.pointwise.c4, tile.lane))
    is_long = _instructions(found, tile, steps) > _MOST_CONVERTED
    return 1 if is_long and problem.machine.converts and problem.options.half else steps


def _cost(problem: Problem, found: Expanded, tile: FieldTile) -> float:
    machine, lane, shape = problem.machine, tile.lane, found.depthwise
    lanes = found.groups(tile) * lane.lanes
    half = problem.options.half
    first = TileWork(
        *(lane.pixels, lane.block, found.pointwise.c4, _steps(found, tile), True),
        converts=problem.converts,
        product=DOT_WORK if lane.float_dots else machine.half if problem.half_sums else 1.0,
        epilogue=epilogue_work(found.first.problem.epilogue),
    )
    busy = first.time(machine, lanes)
    ending = 4 * epilogue_work(found.second.problem.epilogue)
    if machine.scalar:
        value = shape.taps * (4 + _VALUE) + _EACH + ending
        work = tile.rounds * (shape.taps * _PLACE + lane.block * value) + _OUTSIDE
        busy += machine.on_simds(lanes, work, _WAITS, machine.held(_HELD))
    else:
        value = shape.taps * (4 + _ACCESSES) + _EACH_ACCESSES + COUNTED_EPILOGUE * ending
        busy += machine.on_simds(lanes, tile.rounds * lane.block * value, 0, machine.held(_HELD))
    types = [found.first.problem.input(0), *problem.outputs]
    types += found.second.problem.epilogue.operands
    moved = sum(storage_bytes(t, Layout.C4, half=half) for t in types)
    moved += found.numbers(tile)[1] * (8 if half else 16)
    return machine.dispatch + machine.beside(busy, moved)


def _emit(emitter: Emitter, found: Expanded, tile: FieldTile) -> None:
    own = found.second.alone(emitter, emitter.input(0))
    lane = tile.lane
    pack = functools.partial(pack_expanded, found, lane)
    key = f"expanded.{lane.block}" + (".dots" if lane.float_dots else "")
    weights = own.weight(key, pack, *found.sources)
    half_sums = emitter.problem.half_sums and not lane.float_dots
    own.dispatch(
        "chain/expanded",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(found.groups(tile), emitter.problem.limits),
        local=(lane.lanes, 1, 1),
        push=_push(found, tile),
        spec={
            **lane.spec,
            "STEPS": _steps(found, tile),
            "TILE_H": tile.height,
            "TILE_W": tile.width,
            "FIELD_H": tile.field[0],
            "FIELD_W": tile.field[1],
            "KERNEL_H": found.depthwise.kernel[1],
            "KERNEL_W": found.depthwise.kernel[2],
            "ROUNDS": tile.rounds,
            **step_constants(found.first.problem.epilogue.steps, 0),
            **step_constants(found.second.problem.epilogue.steps, MOST_STEPS),
        },
        defines={"DOTS": FLOAT_DOTS} if lane.float_dots else {"HALF_SUMS": 1} if half_sums else {},
        epilogue=1,
        with_steps=False,
        access="storage",
        flops=found.pointwise.flops + found.depthwise.flops,
    )


def _push(found: Expanded, tile: FieldTile) -> dict[str, int]:
    """Push constants."""
    shape, (down, across) = found.depthwise, found.tiles(tile)
    blocks, (behind, _) = weight_blocks(found.pointwise, tile.lane.block), found.numbers(tile)
    geometry = shape.geometry()
    names = ("in_h", "in_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_h", "pad_w")
    return {
        "tiles_w": across,
        "tiles": down * across,
        "total": found.groups(tile),
        "c4": found.pointwise.c4,
        "m4": shape.m4,
        "blocks": blocks.count,
        "channels": shape.channels_out,
        "out_h": shape.size_out[1],
        "out_w": shape.size_out[2],
        **{name: geometry[name] for name in names},
        "bias": blocks.weights,
        "depthwise": behind,
        "depthwise_bias": behind + shape.c4 * shape.taps,
    }


def pack_expanded(found: Expanded, lane: ConvTile) -> np.ndarray:
    """Weights and bias of the first convolution (:func:`pack_conv`), then of the depthwise."""
    packed = pack_conv(1, lane.block, *constants_of(found.first))
    if lane.float_dots:
        count = 4 * weight_blocks(found.pointwise, lane.block).weights
        packed = packed_for_dots(packed, count, lane.block)
    return np.concatenate([packed, pack_depthwise(*constants_of(found.second))])
