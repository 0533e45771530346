"""Estimates of kernels on GPUs: registers of what is compiled, and what a split of k costs."""

from __future__ import annotations

import dataclasses

import pytest

from vknn.lowering.kernels.chain.inverted_registers import LoadedTile
from vknn.lowering.kernels.chain.inverted_tiles import BlockLanes, InvertedTile
from vknn.lowering.kernels.convolution.tile_times import TileWork
from vknn.lowering.kernels.matmul.cooperative_tiles import SMALL_PART, CooperativeTile
from vknn.lowering.kernels.matmul.shared_memory_tiles import DotTile, SharedMemoryTile
from vknn.lowering.kernels.matmul.split_k import SplitK
from vknn.lowering.kit.machine import Machine, machine_of
from vknn.plan import ComputeUnits, DeviceLimits

ADRENO = Machine(47.0, 5.0, 6e-5, 5e-6, 6144, 5.9e-3, 0.2, simds=12, wave=64, issue=7e-4, wait=0.3)
NVIDIA = dataclasses.replace(ADRENO, dispatch=5.0, simds=328, wave=32, issue=6e-4, wait=0.13)
RDNA = dataclasses.replace(NVIDIA, simds=120, wave=64, issue=1e-3, wait=0.1, scalar=True)
TILE = SharedMemoryTile(4, 1, 8, 8)


def inverted(first: int, own: int) -> InvertedTile:
    """A tile of lanes with so many pixels in the first and the last convolution."""
    return InvertedTile(BlockLanes(128, first, 1, own, 1, 1), 8, 2, 7, 75, 4, "tile", 4)


@pytest.mark.parametrize(("first", "own", "adreno", "nvidia"), [(1, 2, 12, 7), (5, 4, 4, 5)])
def test_waves_of_inverted_tiles_by_registers(
    first: int, own: int, adreno: int, nvidia: int
) -> None:
    """As Turnip and NVK tell of such tiles, or nearly so."""
    tile = inverted(first, own).registers(8, 9)
    assert tile.held(ADRENO) == adreno and tile.held(NVIDIA) == nvidia
    untold = dataclasses.replace(ADRENO, registers=0.0)
    assert tile.held(untold) == untold.held(8)


RDNA_3 = dataclasses.replace(RDNA, registers=1.5)


@pytest.mark.parametrize(
    ("first", "own", "lanes", "two", "three"),
    [
        (3, 6, 256, (6, 80), (6, 120)),  # shared memory has room for so many waves
        (2, 4, 256, (6, 80), (8, 96)),
        (4, 4, 512, (4, 128), (8, 96)),  # whole workgroups: registers for seven would be one's
        (1, 2, 128, (8, 64), (10, 72)),
    ],
)
def test_registers_of_inverted_tiles_on_rdna(
    first: int, own: int, lanes: int, two: tuple[int, int], three: tuple[int, int]
) -> None:
    """Waves and registers as RADV tells of such tiles, but for a round more or less."""
    shared = {6: 21504, 2: 3072}.get(own, 8192)
    tile = LoadedTile(
        sums=(first, own),
        pixels=first,
        loads=(first + 4, own + 4),
        ahead=(2 if first < 3 else 1, 1),
        own=1,
        rounds=1,
        taps=9,
        loaded=4,
        lanes=lanes,
        shared=shared,
    )
    assert tile.given(RDNA) == two and tile.given(RDNA_3) == three


def test_more_registers_are_fewer_waits() -> None:
    """As workgroups of 512 lanes have them: RADV loads further ahead."""
    short = inverted(3, 4).registers(8, 9)
    long = dataclasses.replace(short, lanes=512)
    assert short.given(RDNA)[1] < long.given(RDNA)[1] == 128
    assert long.waits(RDNA, 8) < 0.8 * short.waits(RDNA, 8)


def test_loads_of_a_depthwise_convolution_come_late_without_registers() -> None:
    early = dataclasses.replace(inverted(3, 6).registers(8, 9), lanes=256, shared=21504)
    late = dataclasses.replace(early, rounds=2)
    assert early.given(RDNA) == late.given(RDNA) == (6, 80)
    assert late.waits(RDNA, 8) > early.waits(RDNA, 8) + 1


def test_small_tiles_hold_ten_waves_on_adreno_where_rounds_are_whole() -> None:
    twelve = TILE.cost(ADRENO, 12 * ADRENO.simds, 512, whole=True)
    ten = TILE.cost(ADRENO, 10 * ADRENO.simds, 512, whole=True)
    eight = TILE.cost(ADRENO, 10 * ADRENO.simds, 512)
    # The last ones wait alone: two of twelve in one case, two of ten in the other.
    assert ten < eight and twelve > 1.2 * ten


def test_long_rounds_of_cooperative_matrices_leave_fewer_waves() -> None:
    short, long = (
        CooperativeTile(2, 1, 16, 8, depth=depth, part=SMALL_PART, in_memory=True)
        for depth in (8, 32)
    )
    slow = dataclasses.replace(NVIDIA, wait=3.0)
    five, six = 5 * 328 // 4, 6 * 328 // 4  # workgroups of four waves
    assert short.cost(slow, six, 32, taps=True) < 1.1 * short.cost(slow, five, 32, taps=True)
    assert long.cost(slow, six, 128, taps=True) > 1.9 * long.cost(slow, five, 128, taps=True)


def test_vec4s_that_fill_no_round_are_waited_for() -> None:
    whole = TileWork(1, 1, steps=90, together=4, pointwise=False)
    rest = dataclasses.replace(whole, alone=18)
    few = 32 * 328
    more = (18 - 18 / 4) * (NVIDIA.wait + 8 * NVIDIA.issue)
    assert rest.time(NVIDIA, few) == pytest.approx(whole.time(NVIDIA, few) + more)


def test_a_unit_has_as_many_simds_as_its_lanes_are() -> None:
    """Adreno's have two, NVIDIA's four: so many workgroups read at the same time."""
    limits = DeviceLimits(kind="integrated", vendor_id=0x5143, subgroup_size=64)
    adreno = machine_of(dataclasses.replace(limits, compute_units=ComputeUnits(6, 256, 0.68)))
    assert (adreno.simds, adreno.unit) == (12, 2)
    assert adreno.crowd(3) == 1 and adreno.crowd(12) == 2
    nvidia = DeviceLimits(kind="discrete", vendor_id=0x10DE, subgroup_size=32)
    assert machine_of(dataclasses.replace(nvidia, name="NVK ")).unit == 4


def test_sums_that_workgroups_share_out_count_once() -> None:
    split = SplitK(4)
    assert split.moved(TILE, 10) == 4 * split.sums(TILE, 10)
    assert 0 < split.last(NVIDIA, TILE) < 5 * NVIDIA.wait


def test_workgroups_that_share_out_k_wait_less_in_the_loop_of_dots() -> None:
    tile = DotTile(4, 1, 8, 8)
    alone = tile.cost(RDNA, 10, 144, taps=True, whole=True)
    around = SplitK(2).around(tile)
    shared = tile.cost(RDNA, 10, 144, taps=True, whole=True, split=around)
    assert shared < 0.9 * alone
