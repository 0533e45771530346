"""Compute units of GPUs: from what the driver tells, else by name from a table. Pure."""

from __future__ import annotations

from vknn.plan import ComputeUnits
from vknn.runtime.machines import machine_of
from vknn.runtime.snapshot import Snapshot

# PCI vendor ids; Qualcomm's and Apple's are those of the Vulkan registry.
AMD, NVIDIA, ARM, INTEL, QUALCOMM, APPLE = 0x1002, 0x10DE, 0x13B5, 0x8086, 0x5143, 0x106B
MESA = 0x10005  # what Mesa's driver for Apple's GPUs gives
#: Warps that a multiprocessor of Turing holds; it has 64 lanes, those of other GPUs of today 128
#: (CUDA C++ Programming Guide, "Compute Capabilities").
_TURING_WARPS = 32
#: Clocks in GHz where only units are told, and the table of machines has not the card (nor one of
#: GCN, whose cycle estimates stretch): what cards of the last years reach when busy, by kind.
_CLOCKS = {
    (AMD, "discrete"): 2.1,
    (AMD, "integrated"): 1.8,
    (NVIDIA, "discrete"): 1.7,
    (NVIDIA, "integrated"): 1.2,
}
_OTHER_CLOCK = 0.9  # Mali-G710 to G720 in phones: 0.85 to 1.3

#: Intel's PCI device ids that drivers name otherwise -> a name of the table of machines.
_INTEL_NAMES = {
    0x56A0: "Arc A770",
    0x56A1: "Arc A750",
    0x56A5: "Arc A380",
    0x9A49: "Iris Xe Graphics",
}


def compute_units(snapshot: Snapshot) -> ComputeUnits | None:
    """The processors of a GPU; None for CPUs and where nothing is known of them."""
    if snapshot.kind == "cpu":
        return None
    # The null device of NVK answers with two multiprocessors, whatever the chip.
    if snapshot.is_null and snapshot.vendor_id == NVIDIA:
        return None
    told = _told(snapshot)
    if told is not None:
        return told
    name = _INTEL_NAMES.get(snapshot.device_id, "") if snapshot.vendor_id == INTEL else ""
    machine = machine_of(f"{snapshot.name} {name}")
    return None if machine is None else machine.units


def _told(snapshot: Snapshot) -> ComputeUnits | None:
    if snapshot.unit_count <= 0:
        return None
    clock = _CLOCKS.get((snapshot.vendor_id, snapshot.kind), _OTHER_CLOCK)
    known = machine_of(snapshot.name)
    if known is not None and known.rdna:
        clock = known.clock
    return ComputeUnits(snapshot.unit_count, _lanes(snapshot), clock)


def _lanes(snapshot: Snapshot) -> int:
    if snapshot.unit_lanes > 0:
        return snapshot.unit_lanes
    if snapshot.vendor_id == NVIDIA:
        return 64 if snapshot.unit_subgroups == _TURING_WARPS else 128
    return 64  # AMD: four SIMDs of 16 lanes (GCN), two of 32 (RDNA); ARM without fmaRate
