"""Tiles of inverted residual blocks as one dispatch, and what they are estimated to take.

Instructions, waits and bytes are counted as static profiles count them (docs/null-devices.md).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kernels.matmul.shared_memory_tiles import DOT_WORK
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine, machine_of
from vknn.plan import DeviceLimits

#: Lanes of a workgroup and vec4s of a slice of the channels between.
SIZES = ((64, 8), (128, 8), (256, 8), (256, 16), (256, 32), (512, 32))
#: Most pixels of a lane in the first convolution, and of a tile; sides of tiles.
MOST_PIXELS, MOST_TILE, MOST_SIDE = 6, 64, 16
#: Vec4s of channels of a lane, and pixels in the last convolution.
COLS, PIXELS = (1, 2), (1, 2, 4, 6)
#: Most vec4s of sums of a lane, in both convolutions: more take registers for half of the waves.
MOST_SUMS = 12
#: Most part of the shared memory that a workgroup takes: others are to run beside it.
_SHARE = 0.5
#: Most instructions by estimate, on AMD and elsewhere (16 and 32 KB of code).
MOST_INSTRUCTIONS = 1800, 1050
#: Registers for what is loaded together.
_LOADED = 48
#: Instructions: of a round of the depthwise convolution, of a slice, outside of all loops; waits of
#: a slice and outside.
_ROUND, _SLICE, _OUTSIDE, _WAITS, _OUTSIDE_WAITS = 14.0, 40.0, 150.0, 3.0, 4.0
#: Waves that a SIMD has registers for.
_HELD = 8
#: Shared memory of a compute unit, and SIMDs that have it.
_UNIT_SHARED, _UNIT_SIMDS = 1 << 16, 2


@dataclass(frozen=True)
class Lanes:
    """A workgroup's lanes, and what each has in the first and the last convolution."""

    count: int
    first_pixels: int
    first_cols: int
    pixels: int
    cols: int
    parts: int

    def ahead(self, half: bool) -> int:
        """Vec4s of x whose loads stand together."""
        return _ahead(self.first_pixels, self.first_cols, half)

    def last_ahead(self, half: bool) -> int:
        """Vec4s of a slice whose loads stand together."""
        return _ahead(self.pixels, self.cols, half)


def _ahead(pixels: int, cols: int, half: bool) -> int:
    return max(1, _LOADED // ((pixels + 4 * cols) * (2 if half else 4)))


@dataclass(frozen=True)
class InvertedTile:
    """A tile of ``height`` x ``width`` pixels of the result, and ``slice`` vec4s between.

    ``steps``: vec4s of x whose products stand together. ``kind``: "tile" multiplies in float32,
    "half" in float16, "dots" adds products of float16 in pairs.
    """

    lanes: Lanes
    slice: int
    height: int
    width: int
    field: int
    steps: int
    kind: str

    @property
    def pixels(self) -> int:
        """Pixels of the tile."""
        return self.height * self.width

    @property
    def rounds(self) -> int:
        """Pixels of a lane in the depthwise convolution."""
        return ceil_div(self.pixels * self.slice, self.lanes.count)

    def row(self, m4: int) -> int:
        """Vec4s of a row of the last convolution's weights."""
        return ceil_div(m4, self.lanes.cols) * self.lanes.cols

    def shared_bytes(self, m4: int) -> int:
        """Shared memory of a workgroup."""
        size = 16 if self.kind == "tile" else 8
        held = self.field * self.slice + self.pixels * (self.slice + 1)
        return max(size * held, 16 * self.lanes.parts * self.pixels * self.row(m4))

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"inverted-{self.kind}{self.lanes.count}x{self.slice}"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a block: vec4s of channels of x, between and of y, the depthwise convolution, and
    instructions for an element of each one's activation."""

    x4: int
    middle4: int
    m4: int
    depthwise: ConvShape
    epilogues: tuple[float, ...]

    def tiles(self, tile: InvertedTile) -> tuple[int, int]:
        """Tiles below and beside each other in an image."""
        _, height, width = self.depthwise.size_out
        return ceil_div(height, tile.height), ceil_div(width, tile.width)

    def groups(self, tile: InvertedTile) -> int:
        """Workgroups."""
        down, across = self.tiles(tile)
        return self.depthwise.batch * down * across

    def numbers(self, tile: InvertedTile) -> int:
        """Vec4s of packed weights and biases."""
        middle4, row = ceil_div(self.middle4, tile.slice) * tile.slice, tile.row(self.m4)
        return middle4 * (4 * self.x4 + 4 * row + self.depthwise.taps + 2) + row

    def instructions(self, tile: InvertedTile, product: float) -> tuple[float, float, float, float]:
        """Instructions of a lane for a slice: products of a vec4 of x, all else of the first
        convolution, of the depthwise one, of the last."""
        lanes, (g, h, _) = tile.lanes, self.epilogues
        sums = lanes.first_pixels * lanes.first_cols
        first = (4 * g + 8) * sums
        between = tile.rounds * (4 * self.depthwise.taps + 4 * h + _ROUND)
        last = 16 * product * lanes.pixels * lanes.cols * tile.slice / lanes.parts
        return 16 * product * sums, first, between, last

    def code(self, tile: InvertedTile, product: float, converted: float) -> float:
        """Instructions of the kernel; ``converted``: those that make a vec4 of weights floats."""
        step, first, between, last = self.instructions(tile, product)
        lanes, rest = tile.lanes, self.x4 % tile.steps
        step += lanes.first_pixels * (1 + converted) + 4 * lanes.first_cols * (1 + converted)
        loads = tile.slice / lanes.parts * (lanes.pixels + 4 * lanes.cols * (1 + converted))
        taps = self.depthwise.taps * (tile.rounds + 1 + converted)
        return (tile.steps + rest) * step + first + between + last + loads + taps + _OUTSIDE

    def time(self, machine: Machine, tile: InvertedTile, half: bool) -> float:
        """Microseconds of all workgroups, apart from the dispatch and its bytes."""
        lanes, taps, size = tile.lanes, self.depthwise.taps, 8 if half else 16
        product = {"tile": 1.0, "dots": DOT_WORK}.get(tile.kind, machine.half)
        slices = ceil_div(self.middle4, tile.slice)
        step, first, between, last = self.instructions(tile, product)
        work = self.x4 * step + first + between + last + _SLICE
        weights = 4 * (self.x4 * lanes.first_cols + tile.slice / lanes.parts * lanes.cols) + taps
        loads = weights + self.x4 * lanes.first_pixels
        shared = tile.rounds * taps + tile.slice / lanes.parts * lanes.pixels
        held = machine.held(_HELD)
        if machine.scalar:
            if machine.converts and tile.kind == "tile" and half:
                work += 4 * loads
            by_l0, by_lds = (2.0, 1.0) if machine.converts else (1.0, 1.0)
            bytes_held = shared * (16 if tile.kind == "tile" else 8)
            work = max(work, by_l0 * loads * size / 2, by_lds * bytes_held / 2)
        else:
            work += loads + shared
        waves = ceil_div(lanes.count, machine.wave)
        room = _UNIT_SHARED // tile.shared_bytes(self.m4)
        held = max(1, min(held, max(1, room) * waves // _UNIT_SIMDS))
        steps = ceil_div(self.x4, tile.steps) - 1
        ends = ceil_div(tile.pixels * self.m4, lanes.count)
        finish = ends * (10 + 8 * lanes.parts + 4 * self.epilogues[2])
        waits = slices * (_WAITS + steps) + _OUTSIDE_WAITS
        groups = self.groups(tile)
        busy = machine.on_simds(
            groups * lanes.count, slices * work + _OUTSIDE + finish, waits, held
        )
        drawn = machine.drawn(self.numbers(tile) * size)
        return max(busy, drawn * max(1.0, groups * 4 / machine.simds))


@functools.lru_cache(maxsize=256)
def best_tiles(limits: DeviceLimits, sizes: Sizes, kind: str, half: bool) -> list[InvertedTile]:
    """For each size of workgroups and slices the tile of the least estimate that the device allows."""
    machine = machine_of(limits)
    product = 1.0 if kind == "tile" else DOT_WORK
    converted = 4.0 if half and kind == "tile" and (machine.converts or not machine.scalar) else 0.0
    most = MOST_INSTRUCTIONS[not machine.scalar]
    found = []
    for count, width in SIZES:
        if count > min(limits.max_group_invocations, limits.max_group_size[0]):
            continue
        tiles = [
            tile
            for tile in _tiles(sizes, count, width, kind)
            if tile.shared_bytes(sizes.m4) <= _SHARE * limits.shared_memory
        ]
        fitting = [
            lean for tile in tiles if (lean := _lean(sizes, tile, product, converted, most))
        ]
        if fitting:
            found.append(min(fitting, key=lambda tile: sizes.time(machine, tile, half)))
    return found


def _lean(
    sizes: Sizes, tile: InvertedTile, product: float, converted: float, most: float
) -> InvertedTile | None:
    """The tile with as many steps as the code has room for; None where it has not for one."""
    for parts in range(1, sizes.x4 + 1):
        steps = ceil_div(sizes.x4, parts)
        lean = InvertedTile(
            tile.lanes, tile.slice, tile.height, tile.width, tile.field, steps, tile.kind
        )
        if sizes.code(lean, product, converted) <= most:
            return lean
    return None


def _tiles(sizes: Sizes, count: int, width: int, kind: str) -> Iterator[InvertedTile]:
    """Tiles whose fields and sums the lanes of a workgroup hold."""
    _, down, across = sizes.depthwise.size_out
    for height in _sides(down):
        for beside in _sides(across):
            pixels = height * beside
            if pixels > MOST_TILE:
                continue
            field = _field(sizes.depthwise, 1, height) * _field(sizes.depthwise, 2, beside)
            for cols in COLS:
                first = ceil_div(field, count * cols // width)
                if first > MOST_PIXELS or first * cols > MOST_SUMS:
                    continue
                for own in PIXELS:
                    for own_cols in COLS:
                        lanes = ceil_div(pixels, own) * ceil_div(sizes.m4, own_cols)
                        if lanes > count or own * own_cols > MOST_SUMS or own > pixels:
                            continue
                        parts = min(width, 1 << (count // lanes).bit_length() - 1)
                        of_lanes = Lanes(count, first, cols, own, own_cols, parts)
                        yield InvertedTile(of_lanes, width, height, beside, field, 1, kind)


@functools.cache
def _sides(size: int) -> list[int]:
    """Sides of tiles that divide an axis into different numbers of them."""
    return sorted({side for n in range(1, size + 1) if (side := ceil_div(size, n)) <= MOST_SIDE})


def _field(shape: ConvShape, axis: int, tile: int) -> int:
    """Pixels along an axis of the input that a tile reads, with those outside of the image."""
    return (tile - 1) * shape.strides[axis] + (shape.kernel[axis] - 1) * shape.dilations[axis] + 1
