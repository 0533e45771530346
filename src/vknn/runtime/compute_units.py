"""Compute units of GPUs: from what the driver tells, else by name from a table. Pure."""

from __future__ import annotations

import re

from vknn.plan import ComputeUnits
from vknn.runtime.snapshot import Snapshot

# PCI vendor ids; Qualcomm's and Apple's are those of the Vulkan registry.
AMD, NVIDIA, ARM, INTEL, QUALCOMM, APPLE = 0x1002, 0x10DE, 0x13B5, 0x8086, 0x5143, 0x106B
MESA = 0x10005  # what Mesa's driver for Apple's GPUs gives
#: Warps that a multiprocessor of Turing holds; it has 64 lanes, those of other GPUs of today 128
#: (CUDA C++ Programming Guide, "Compute Capabilities").
_TURING_WARPS = 32
#: Clocks in GHz where only units are told: what cards of the last years reach when busy, by kind.
_CLOCKS = {
    (AMD, "discrete"): 2.1,
    (AMD, "integrated"): 1.8,
    (NVIDIA, "discrete"): 1.7,
    (NVIDIA, "integrated"): 1.2,
}
_OTHER_CLOCK = 0.9  # Mali-G710 to G720 in phones: 0.85 to 1.3

#: Name -> processors, lanes, GHz. Adreno: ALUs by the lists of notebookcheck.net, whose GFLOP/s
#: they give (630: 727, 660: 1,720, 730: 1,678, 740: 2,089, 750: 2,774). Apple: Wikipedia's "Apple
#: M1", "Apple M2" (128 lanes a core). Intel: ark.intel.com, 8 lanes an execution unit.
_BY_NAME: tuple[tuple[str, ComputeUnits], ...] = (
    (r"Adreno.*\b630\b", ComputeUnits(2, 256, 0.71)),
    (r"Adreno.*\b640\b", ComputeUnits(2, 384, 0.585)),
    (r"Adreno.*\b650\b", ComputeUnits(2, 512, 0.587)),
    (r"Adreno.*\b660\b", ComputeUnits(2, 512, 0.84)),
    (r"Adreno.*\b730\b", ComputeUnits(4, 256, 0.818)),
    (r"Adreno.*\b740\b", ComputeUnits(6, 256, 0.68)),
    (r"Adreno.*\b750\b", ComputeUnits(6, 256, 0.903)),
    (r"Apple M1\b(?! (Pro|Max|Ultra))", ComputeUnits(8, 128, 1.278)),
    (r"Apple M1 Pro\b", ComputeUnits(16, 128, 1.296)),
    (r"Apple M1 Max\b", ComputeUnits(32, 128, 1.296)),
    (r"Apple M1 Ultra\b", ComputeUnits(64, 128, 1.296)),
    (r"Apple M2\b(?! (Pro|Max|Ultra))", ComputeUnits(10, 128, 1.398)),
    (r"Arc.* A770\b", ComputeUnits(32, 128, 2.1)),
    (r"Arc.* A750\b", ComputeUnits(28, 128, 2.05)),
    (r"Arc.* A380\b", ComputeUnits(8, 128, 2.0)),
    (r"UHD Graphics 770\b", ComputeUnits(4, 64, 1.5)),
    (r"UHD Graphics 630\b", ComputeUnits(3, 64, 1.15)),
    (r"Iris.* Xe Graphics\b", ComputeUnits(6, 128, 1.3)),
)
#: Intel's PCI device ids that drivers name otherwise -> a name of the table.
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
    told = _told(snapshot)
    if told is not None:
        return told
    name = _INTEL_NAMES.get(snapshot.device_id, "") if snapshot.vendor_id == INTEL else ""
    text = f"{snapshot.name} {name}"
    return next((units for pattern, units in _BY_NAME if re.search(pattern, text)), None)


def _told(snapshot: Snapshot) -> ComputeUnits | None:
    # The null device of NVK answers with two multiprocessors, whatever the chip.
    made_up = snapshot.is_null and snapshot.vendor_id == NVIDIA
    if snapshot.unit_count <= 0 or made_up:
        return None
    clock = _CLOCKS.get((snapshot.vendor_id, snapshot.kind), _OTHER_CLOCK)
    return ComputeUnits(snapshot.unit_count, _lanes(snapshot), clock)


def _lanes(snapshot: Snapshot) -> int:
    if snapshot.unit_lanes > 0:
        return snapshot.unit_lanes
    if snapshot.vendor_id == NVIDIA:
        return 64 if snapshot.unit_subgroups == _TURING_WARPS else 128
    return 64  # AMD: four SIMDs of 16 lanes (GCN), two of 32 (RDNA); ARM without fmaRate
