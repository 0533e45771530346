"""Tiles of Winograd convolutions: those of an image and those of a lane, with their estimates.

Estimates for GPUs are in multiply-adds of a lane (kernels/matmul/shared_memory_tiles.py). What the
dispatches move counts too: transformed tiles have 2.25 (4x4) or 4 (2x2) times the elements of the
tensors, and transformed weights 4 or 1.8 times those of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kernels.convolution.shape import operand_bytes
from vknn.lowering.kernels.convolution.tile import RegisterTile
from vknn.lowering.kernels.convolution.tile_times import TileWork
from vknn.lowering.kernels.matmul.shared_memory_tiles import BARRIER, HELD, LOAD
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import lane_count
from vknn.plan import DeviceLimits

#: Tiles of a workgroup of the transforms on a GPU: at most 96 lanes and 9 KiB of shared memory.
TILES_HELD = 16


@dataclass(frozen=True)
class WinogradTiling:
    """The output tiles of a convolution, ``size`` x ``size`` pixels each."""

    size: int
    rows: int  # tiles of a column of an image
    columns: int
    count: int  # of all images
    c4: int
    m4: int
    half: bool = False  # transformed tiles are float16 (winograd_products.py)

    @property
    def side(self) -> int:
        """Pixels of a row under a tile."""
        return self.size + 2

    @property
    def places(self) -> int:
        """Pixels under a tile: products for each pair of channels."""
        return self.side**2

    def step(self, width: int) -> int:
        """vec4s from place to place of transformed tiles with ``width`` vec4s of channels.

        An odd multiple of 64 bytes, so that the places of a tile fall into different cache sets;
        in float16, on GPUs, without a gap.
        """
        if self.half:
            return self.count * width
        return ceil_div(self.count * width - 4, 8) * 8 + 4


@dataclass(frozen=True)
class WinogradTile(RegisterTile):
    """A lane's tile of the products: ``pixels`` counts Winograd tiles.

    ``ahead``: vec4s of channels whose inputs are fetched before those in hand are multiplied; 0
    for none.
    """

    ahead: int = 0

    @property
    def spec(self) -> dict[str, int]:
        return super().spec | ({"ROUND": self.ahead} if self.ahead else {})

    @property
    def defines(self) -> dict[str, int]:
        """Defines of the product's variant."""
        return {"SHUFFLE": int(self.shuffle)} | ({"AHEAD": 1} if self.ahead else {})

    def chunks(self, tiling: WinogradTiling) -> int:
        """Workgroups side by side over the tiles."""
        return ceil_div(tiling.count, self.pixels * self.lanes)

    def groups(self, tiling: WinogradTiling) -> int:
        """Workgroups of the products."""
        return tiling.places * ceil_div(tiling.m4, self.block) * self.chunks(tiling)


#: Part of a round's waits that is left where inputs are fetched a round ahead.
WAITING_AHEAD = 0.9
#: What transforms take by the estimate of their arithmetic, and their waits: by RADV's machine code
#: for RDNA 2.
TRANSFORMED, TRANSFORM_WAITS = 1.35, 3.0


def product_cost(problem: Problem, tiling: WinogradTiling, tile: WinogradTile) -> float:
    """Microseconds, estimated as for the convolution in register tiles (the same inner loop)."""
    products, loads = tile.products, tile.loads
    groups, machine = tile.groups(tiling), problem.machine
    if problem.limits.kind == "cpu":
        step = 50 * loads + 6 * products + 16 * tile.block * tile.shuffle
        work = step * tiling.c4 + 500 + 270 * tile.pixels * tile.block
        return machine.dispatch + machine.in_groups(groups, work)
    together = 2 * tile.ahead or 1
    waits = WAITING_AHEAD if tile.ahead else 1.0
    sizes = tile.pixels, tile.block, tiling.c4, together
    tile_work = TileWork(*sizes, pointwise=True, waiting=waits, converts=problem.converts)
    busy = tile_work.time(machine, groups * tile.lanes)
    return machine.dispatch + machine.beside(busy, product_bytes(problem, tiling))


def product_bytes(problem: Problem, tiling: WinogradTiling) -> int:
    """Bytes of transformed tiles, weights and products."""
    weights = 16 * tiling.c4 * tiling.m4 * _bytes(problem)
    tiles = tiling.count * (tiling.c4 + tiling.m4) * _vector_bytes(tiling)
    return tiling.places * (weights + tiles)


def lanes_of_tiles(limits: DeviceLimits, tiling: WinogradTiling) -> int:
    """Lanes of a workgroup of the products on GPUs."""
    lanes = lane_count(limits)
    if max(tiling.count, limits.subgroup_size) <= lanes // 2:
        lanes //= 2  # half the lanes would have no tile
    return lanes


def transform_cost(problem: Problem, tiling: WinogradTiling) -> float:
    """Microseconds of both transforms."""
    machine, lanes = problem.machine, lane_count(problem.limits)
    count, places, side = tiling.count, tiling.places, tiling.side
    lanes_in, lanes_out = count * tiling.c4, count * tiling.m4
    if problem.limits.kind == "cpu":
        moves_out = places + tiling.size**2
        cost = machine.in_groups(ceil_div(lanes_in, lanes), 230 * places + 300)
        cost += machine.in_groups(ceil_div(lanes_out, lanes), 120 * moves_out + 300)
        return 2 * machine.dispatch + cost
    # A lane transforms two lines with about 3/2 side^2 multiply-adds each, handing over between.
    lines = 3 * places + 2 * HELD * side + BARRIER
    pixels = 4 * _bytes(problem) * tiling.size**2
    moved = pixels + _vector_bytes(tiling) * places
    cost = _gpu_cost(problem, lanes_in * side, lines + 2 * LOAD * side, lanes_in * moved)
    work = lines + LOAD * (side + tiling.size)
    moved = lanes_out * moved + operand_bytes(problem)  # which the output's epilogue reads
    return cost + _gpu_cost(problem, lanes_out * side, work, moved)


def _bytes(problem: Problem) -> int:
    """Bytes of an element of tensors and weights."""
    return 2 if problem.options.half else 4


def _vector_bytes(tiling: WinogradTiling) -> int:
    """Bytes of a vec4 of transformed tiles and of products."""
    return 8 if tiling.half else 16


def _gpu_cost(problem: Problem, lanes: int, work: float, moved: int) -> float:
    """Microseconds of a dispatch of lanes with so much work each that moves so many bytes."""
    machine = problem.machine
    busy = machine.on_simds(lanes, TRANSFORMED * work, TRANSFORM_WAITS)
    return machine.dispatch + machine.beside(busy, moved)
