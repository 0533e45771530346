"""Search for tiles of inverted residual blocks: those that a device holds, by their estimates."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from vknn.lowering.kernels.chain.inverted_tiles import BlockLanes, InvertedTile, Sizes, converts
from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine, machine_of
from vknn.plan import DeviceLimits

#: Lanes of a workgroup and vec4s of a slice of the channels between.
SIZES = ((64, 8), (128, 8), (256, 8), (256, 16), (256, 32), (512, 32))
#: Besides where slices of these vec4s are whole and those of 32 are padded: a workgroup reads all
#: weights, padding too, and where few fill the machine that is what it takes.
_WHOLE = 384, 24
#: Vec4s of channels of a lane, and pixels of it in the last convolution.
COLS, PIXELS = (1, 2), (1, 2, 4, 6)
#: Most vec4s of sums of a lane in a convolution, and most in the first one and in both on GCN, on
#: RDNA, there of float32 in workgroups of 256 lanes and in smaller ones, and elsewhere. With more,
#: registers leave fewer waves than the floors of docs/null-devices.md.
MOST_SUMS = 10
_GCN, _RDNA, _RDNA_WIDE, _RDNA_SMALL, _ELSEWHERE = (8, 14), (10, 18), (10, 12), (4, 10), (10, 10)
#: On GCN of sums in float16: 8 left mobilenet_v3 one wave with RADV.
_GCN_HALF = (6, 12)
_INTEL = (4, 6)
#: Most pixels of a lane in the first convolution, of a tile, and of its sides.
MOST_PIXELS, MOST_TILE, MOST_SIDE = 6, 64, 16
#: Most part of the shared memory that a workgroup takes: others are to run beside it.
_SHARE = 0.5
#: Most instructions by estimate, on AMD and elsewhere: so code stays below 16 KB with RADV and
#: below 32 KB with NVK, where each takes 16 bytes.
MOST_INSTRUCTIONS = 1900, 1250
#: On Adreno workgroups of more lanes than 256 have 96 registers a lane instead of 192: so many
#: steps in a round at most, of which its compiler loads ahead.
_WIDE_LANES, _WIDE_STEPS = 256, 5


@functools.lru_cache(maxsize=256)
def best_tiles(limits: DeviceLimits, sizes: Sizes, kind: str) -> tuple[InvertedTile, ...]:
    """Tiles of the least estimate that the device allows, one for each size of workgroups."""
    machine = machine_of(limits)
    loaded = 2 if sizes.half and not converts(machine, kind, sizes.half) else 4
    found = []
    for count, width in _sizes(machine, sizes):
        if count > min(limits.max_group_invocations, limits.max_group_size[0]):
            continue
        tiles = (
            lean
            for tile in _tiles(sizes, count, width, kind, loaded)
            if tile.shared_bytes(sizes.m4) <= _SHARE * limits.shared_memory
            and _has_registers(machine, sizes, tile)
            and (lean := _lean(machine, sizes, tile))
        )
        best = min(tiles, key=lambda tile: sizes.time(machine, tile), default=None)
        if best is not None:
            found.append(best)
    return tuple(found)


def _sizes(machine: Machine, sizes: Sizes) -> tuple[tuple[int, int], ...]:
    """Lanes and slices of workgroups. Estimates of RDNA, GCN and Adreno know the usual ones only,
    Intel's have no registers for them."""
    others = not (machine.scalar or machine.adreno or machine.few_registers)
    whole = sizes.middle4 % _WHOLE[1] == 0 and sizes.middle4 % 32 != 0
    return (*SIZES, _WHOLE) if others and whole else SIZES


def _has_registers(machine: Machine, sizes: Sizes, tile: InvertedTile) -> bool:
    lanes = tile.lanes
    if machine.few_registers:
        first, both = _INTEL
    elif not machine.scalar:
        first, both = _ELSEWHERE
    elif machine.converts:
        first, both = _GCN_HALF if tile.kind == "half" else _GCN
    elif tile.loaded < 4:
        first, both = _RDNA
    else:
        first, both = _RDNA_WIDE if lanes.count >= 256 else _RDNA_SMALL
    return lanes.first_sums <= first and lanes.first_sums + lanes.sums <= both


def _lean(machine: Machine, sizes: Sizes, tile: InvertedTile) -> InvertedTile | None:
    """The tile with as many steps as the code has room for; None where it has not for one.

    On AMD's GPUs with all: a loop inside of that over slices waits once a round.
    """
    loops = 1 if machine.scalar else sizes.x4
    wide = machine.adreno and tile.lanes.count > _WIDE_LANES
    for steps in dict.fromkeys(ceil_div(sizes.x4, rounds) for rounds in range(1, loops + 1)):
        if wide and steps > _WIDE_STEPS:
            continue
        lean = replace(tile, steps=steps)
        if sizes.code(machine, lean) <= MOST_INSTRUCTIONS[not machine.scalar]:
            return lean
    return None


def _tiles(sizes: Sizes, count: int, width: int, kind: str, loaded: int) -> Iterator[InvertedTile]:
    """Tiles whose fields and sums the lanes of a workgroup hold."""
    _, down, across = sizes.depthwise.size_out
    sides = ((height, beside) for height in _sides(down) for beside in _sides(across))
    for height, beside in sides:
        if height > beside and beside < across:
            continue
        pixels = height * beside
        field = _field(sizes.depthwise, 1, height) * _field(sizes.depthwise, 2, beside)
        if pixels <= MOST_TILE:
            for lanes in _lanes(count, width, field, pixels, sizes.m4):
                yield InvertedTile(lanes, width, height, beside, field, sizes.x4, kind, loaded)


def _lanes(count: int, width: int, field: int, pixels: int, m4: int) -> Iterator[BlockLanes]:
    """What a workgroup's lanes may have of a field and a tile of so many pixels.

    Of what they may have in the last convolution two that take the least for a slice.
    """
    lasts = []
    for own, cols in ((own, cols) for own in PIXELS for cols in COLS):
        lanes = ceil_div(pixels, own) * ceil_div(m4, cols)
        if lanes <= count and own <= pixels and own * cols <= MOST_SUMS:
            # A power of two that divides the slice.
            parts = min(width & -width, 1 << (count // lanes).bit_length() - 1)
            lasts.append(((8 * own * cols + 4 * cols + own) / parts, own, cols, parts))
    lasts.sort()
    for cols in COLS:
        first = ceil_div(field, count * cols // width)
        if first <= MOST_PIXELS and first * cols <= MOST_SUMS:
            for _, own, own_cols, parts in lasts[:2]:
                yield BlockLanes(count, first, cols, own, own_cols, parts)


@functools.cache
def _sides(size: int) -> list[int]:
    """Sides of tiles that divide an axis into different numbers of them."""
    return sorted({side for n in range(1, size + 1) if (side := ceil_div(size, n)) <= MOST_SIDE})


def _field(shape: ConvShape, axis: int, tile: int) -> int:
    """Pixels along an axis of the input that a tile reads, with those outside of the image."""
    return (tile - 1) * shape.strides[axis] + (shape.kernel[axis] - 1) * shape.dilations[axis] + 1
