"""Machines of GPUs that no table has: estimated as plans are, so that they have modelled times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vknn.plan import ComputeUnits, DeviceLimits, MeasuredSpeeds
from vknn.profiling.modelled import gpu_machine, is_estimated, known_machine, machine_text
from vknn.profiling.modelled.estimated import _estimated

AMD, NVIDIA, APPLE, INTEL, ARM = 0x1002, 0x10DE, 0x10005, 0x8086, 0x13B5


def limits(name: str, kind: str, vendor: int, wave: int, *units: float) -> DeviceLimits:
    told = ComputeUnits(int(units[0]), int(units[1]), units[2]) if units else None
    return DeviceLimits(
        name=name, kind=kind, vendor_id=vendor, subgroup_size=wave, compute_units=told
    )


@pytest.mark.parametrize(
    "device",
    [
        limits("AMD Radeon RX 6800 (RADV NAVI21)", "discrete", AMD, 64, 60, 64, 2.1),
        limits("AMD Radeon RX 5700 XT (RADV NAVI10)", "discrete", AMD, 64, 40, 64, 2.1),
        limits("AMD Radeon RX Vega (RADV VEGA10)", "discrete", AMD, 64, 64, 64, 2.1),
        limits("NVIDIA GeForce RTX 3090", "discrete", NVIDIA, 32, 82, 128, 1.7),
        limits("Apple M1 (G13G A0)", "integrated", APPLE, 32, 8, 128, 1.278),
    ],
    ids=lambda device: device.name,
)
def test_estimates_are_near_the_table(device: DeviceLimits) -> None:
    """What a driver tells is enough to be near what stands in the table."""
    table, found = gpu_machine(device), _estimated(device)
    assert table is not None
    same = ("simds", "lanes", "shared_by", "counted_by", "matrix", "gcn", "rdna", "packed")
    assert {n: getattr(found, n) for n in same} == {n: getattr(table, n) for n in same}
    assert found.clock == pytest.approx(table.clock, rel=0.2)
    assert found.bandwidth == pytest.approx(table.bandwidth, rel=0.45)


@pytest.mark.parametrize(
    ("name", "rdna"),
    [
        ("AMD Radeon RX 7700 XT (RADV NAVI32)", 3),
        ("AMD Radeon RX 6400 (RADV NAVI24)", 2),
        ("AMD Radeon RX 5500 XT (RADV NAVI14)", 1),
        ("AMD Radeon RX 9060 (RADV GFX1200)", 4),
        ("AMD Radeon RX 7700 XT", 0),  # another driver, whose machine code is not read
    ],
)
def test_generations(name: str, rdna: int) -> None:
    device = limits(name, "discrete", AMD, 64, 54, 64, 2.1)
    found = known_machine(device)
    assert is_estimated(device) and found is not None and found.rdna == rdna
    assert found.reads_code == bool(rdna)


def test_what_is_measured_counts() -> None:
    device = limits("Mali-G78", "integrated", ARM, 16, 20, 64, 0.85)
    told = known_machine(device)
    fast = known_machine(replace(device, speeds=MeasuredSpeeds(8000.0, 100.0, 1e-5)))
    assert told is not None and fast is not None
    assert fast.peak > 2 * told.peak and fast.simds == told.simds == 40
    assert "no table has Mali-G78: estimated at 40 SIMDs of 32 lanes" in machine_text(device)


@pytest.mark.parametrize("kind", ["discrete", "integrated", "virtual", "other"])
def test_nothing_told(kind: str) -> None:
    """A cautious default by kind."""
    found = known_machine(limits("somebody's", kind, 0x1234, 32))
    assert found is not None and found.simds > 4 and found.lanes == 32
    assert 100 < found.peak < 20_000 and 10 < found.bandwidth < 1000


def test_processors_have_none() -> None:
    device = limits("llvmpipe", "cpu", 0, 8)
    assert known_machine(device) is None and not is_estimated(device)


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("Intel(R) HD Graphics 530 (SKL GT2)", 24 * 8),
        ("Intel(R) Iris(R) Plus Graphics (ICL GT2)", 64 * 8),
        ("Intel(R) UHD Graphics 630 (CFL GT2)", 24 * 8),
    ],
)
def test_intel_before_xe(name: str, lanes: int) -> None:
    found = gpu_machine(limits(name, "integrated", INTEL, 32))
    assert found is not None and found.simds * found.lanes == lanes and found.dot > 1
