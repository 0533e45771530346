"""Compute units by what drivers tell, else by name."""

from __future__ import annotations

import pytest

from vknn.plan import ComputeUnits
from vknn.runtime.compute_units import AMD, ARM, INTEL, NVIDIA, compute_units
from vknn.runtime.snapshot import Snapshot


def card(name: str = "card", vendor: int = 0, count: int = 0, **more: object) -> Snapshot:
    return Snapshot(name=name, vendor_id=vendor, unit_count=count, **{"kind": "discrete", **more})


@pytest.mark.parametrize(
    ("snapshot", "units"),
    [
        # What the drivers of these cards tell.
        (card("RX 6800", AMD, 60, unit_subgroups=32), ComputeUnits(60, 64, 2.1)),
        # Clocks of cards that the table knows; those of GCN are of another cycle.
        (card("AMD Radeon Graphics (RADV NAVI31)", AMD, 96), ComputeUnits(96, 64, 2.4)),
        (
            card("AMD Radeon Vega 10 (RADV RAVEN)", AMD, 10, kind="integrated"),
            ComputeUnits(10, 64, 1.8),
        ),
        (card("raven", AMD, 11, kind="integrated"), ComputeUnits(11, 64, 1.8)),
        (card("RTX 2080", NVIDIA, 46, unit_subgroups=32), ComputeUnits(46, 64, 1.7)),
        (card("RTX 3090", NVIDIA, 82, unit_subgroups=48), ComputeUnits(82, 128, 1.7)),
        (card("Mali", ARM, 10, unit_lanes=64, kind="integrated"), ComputeUnits(10, 64, 0.9)),
        # Names that drivers give.
        (card("Turnip Adreno (TM) 740", kind="integrated"), ComputeUnits(6, 256, 0.68)),
        (card("Adreno (TM) 630", kind="integrated"), ComputeUnits(2, 256, 0.71)),
        (card("Apple M1 (G13G A0)", kind="integrated"), ComputeUnits(8, 128, 1.278)),
        (card("Apple M1 Max", kind="integrated"), ComputeUnits(32, 128, 1.296)),
        (card("Intel(R) Arc(tm) A770 Graphics (DG2)", INTEL), ComputeUnits(32, 128, 2.1)),
        (card("Intel(R) Graphics", INTEL, device_id=0x56A1), ComputeUnits(28, 128, 2.05)),
    ],
)
def test_known_cards(snapshot: Snapshot, units: ComputeUnits) -> None:
    assert compute_units(snapshot) == units


@pytest.mark.parametrize(
    "snapshot",
    [
        card("llvmpipe", kind="cpu", count=2),
        card("unheard of"),
        card("Adreno (TM) 7400"),
        card("Radeon", AMD, device_id=0x56A1),
        # The null device of NVK makes its two multiprocessors up.
        card("NVK", NVIDIA, 2, is_null=True),
    ],
)
def test_nothing_is_made_up(snapshot: Snapshot) -> None:
    assert compute_units(snapshot) is None
