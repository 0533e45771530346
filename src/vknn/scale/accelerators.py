"""Accelerators of Ray as Vulkan devices: Ray's ids are CUDA's or HIP's, which Vulkan does not know.

Ray tells a worker which GPU it got by CUDA_VISIBLE_DEVICES and the like, which no Vulkan driver
reads: without this every worker of a machine would open the same card.
"""

from __future__ import annotations

from collections.abc import Sequence

from vknn import environment
from vknn.errors import DeviceError
from vknn.runtime import devices
from vknn.runtime.device_selection import rejection
from vknn.runtime.snapshot import Snapshot

#: PCI ids of the vendors whose GPUs Ray counts, in the order in which it looks for them.
_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel"}
_UUID = "gpu-"


def assigned_device(ids: Sequence[str], snapshots: Sequence[Snapshot]) -> str:
    """The selector of the Vulkan device that is an accelerator of Ray.

    NVIDIA's UUIDs are those of Vulkan. A number counts the GPUs of one vendor in the order of their
    PCI addresses, which is the order of NVML and amdsmi.

    Args:
        ids: What Ray gave the worker, such as ["1"] or ["GPU-8a2b..."].
        snapshots: The Vulkan devices of this machine.

    Raises:
        vknn.DeviceError: There is no such device; the text names those there are.
    """
    if not ids:
        raise DeviceError("Ray gave this worker no GPU: its resources have to ask for one")
    text = str(ids[0]).strip()
    if text.lower().startswith("mig-"):
        raise DeviceError(f"Ray gave the worker {text}, a MIG slice, which is no Vulkan device")
    if text.lower().startswith(_UUID):
        return f"uuid:{text}"
    cards = cards_of(snapshots)
    if not text.isdecimal() or int(text) >= len(cards):
        shown = ", ".join(f"{s.name} ({s.pci})" for s in cards) or "none"
        raise DeviceError(
            f"Ray gave the worker GPU {text!r}, and Vulkan's GPUs of its kind on this machine are "
            f"{shown}: is the driver's Vulkan part installed?"
        )
    card = cards[int(text)]
    return card.pci_name or card.uuid_name or f"vulkan:{card.index}"


def cards_of(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The GPUs of the vendor that Ray counts, each once, in the order of their PCI addresses."""
    for vendor in _VENDORS:
        own = [s for s in snapshots if s.vendor_id == vendor and is_gpu(s)]
        if own:
            first: dict[str, Snapshot] = {}
            for snapshot in sorted(own, key=lambda s: (s.pci or "", s.index)):
                first.setdefault(snapshot.pci or f"vulkan:{snapshot.index}", snapshot)
            return list(first.values())
    return []


def is_gpu(snapshot: Snapshot) -> bool:
    """Whether a device is a GPU that can be used, and no driver for CPUs."""
    return snapshot.kind in ("discrete", "integrated", "virtual") and rejection(snapshot) is None


def offered_here() -> list[str]:
    """Selectors of the devices that this machine offers. Raises DeviceError without Vulkan."""
    return offered(devices(), environment.read().null_device)


def offered(snapshots: Sequence[Snapshot], null_device: bool = False) -> list[str]:
    """Selectors of the devices that a machine offers as the resource "vulkan".

    They are its GPUs, or where it has none, the drivers for CPUs.
    """
    usable = [s for s in snapshots if rejection(s, null_device) is None]
    gpus = [s for s in usable if s.kind in ("discrete", "integrated", "virtual")] or usable
    names: dict[str, None] = {}
    for snapshot in gpus:
        names[next(iter(snapshot.lasting_names), f"vulkan:{snapshot.index}")] = None
    return list(names)
