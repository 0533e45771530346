"""Machines of GPUs that are in no table: as plans are estimated, by what the driver tells or what
``vknn bench --device-limits`` measured, else by vendor and kind."""

from __future__ import annotations

import re

from vknn.lowering.kit.machine import WAIT_CYCLES, machine_of
from vknn.plan import DeviceLimits
from vknn.runtime.machines import EMULATED_DOT, GpuMachine, gpu_machine, is_rdna

_NVIDIA, _RADV = 0x10DE, re.compile(r"\(RADV ")
#: RDNA's generations by RADV's names of chips; later ones than the last are taken for it.
_GENERATIONS = {1: r"NAVI1|GFX101", 2: r"NAVI2|GFX103|VANGOGH|REMBRANDT|RAPHAEL", 4: r"GFX12"}
#: Multiply-adds of float16 matrices that a scheduler of NVIDIA's does a cycle, on GeForce cards.
_NVIDIA_MATRIX = 64


def known_machine(limits: DeviceLimits) -> GpuMachine | None:
    """The machine of a GPU: of the table, else estimated; None for processors."""
    return gpu_machine(limits) or (None if limits.kind == "cpu" else _estimated(limits))


def is_estimated(limits: DeviceLimits) -> bool:
    """Whether a device is a GPU of no table."""
    return limits.kind != "cpu" and gpu_machine(limits) is None


def machine_text(limits: DeviceLimits) -> str:
    """The machine that a GPU of no table is taken for, in a line."""
    found = known_machine(limits)
    assert found is not None
    return (
        f"no table has {limits.name}: estimated at {found.simds} SIMDs of {found.lanes} lanes, "
        f"{found.clock:.2g} GHz, {found.bandwidth:.0f} GB/s"
    )


def _estimated(limits: DeviceLimits) -> GpuMachine:
    """The machine by which plans for the device are estimated, as static profiles have machines."""
    plans = machine_of(limits)
    cycle = plans.wait / WAIT_CYCLES  # microseconds
    lanes = max(1, round(plans.wave * cycle / plans.issue))
    nvidia = limits.vendor_id == _NVIDIA
    radv = _RADV.search(limits.name) is not None
    return GpuMachine(
        simds=plans.simds,
        lanes=lanes,
        clock=1e-3 / cycle,
        bandwidth=1e-3 / plans.stream,
        shared_by=min(plans.unit, plans.simds),
        counted_by=min(4, plans.simds) if nvidia else 1,
        matrix=max(1, _NVIDIA_MATRIX // lanes) if nvidia else 1,
        rdna=_generation(limits.name) if radv and is_rdna(limits.name) else 0,
        gcn=radv and plans.converts,
        cache_bytes=64 if plans.converts else 128,
        packed=2 if plans.half < 1 else 1,
        dot=1 if "integer_dot_fast" in limits.features else EMULATED_DOT,
    )


def _generation(name: str) -> int:
    found = (
        g for g, chips in _GENERATIONS.items() if re.search(rf"RADV ({chips})", name, re.IGNORECASE)
    )
    return next(found, 3)
