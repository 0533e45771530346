"""Selection of a device: which one a selector means. Pure; tested without a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vknn.errors import DeviceError, NullDeviceError
from vknn.runtime.quirks import unusable
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.vulkan.vk_result import no_driver

#: Selectors of the NumPy reference, which is no Vulkan device; never taken as parts of names.
HOST_DEVICES = ("numpy", "cpu", "reference")
ORDER = ("discrete", "integrated", "virtual", "other", "cpu")
OLDEST_API = (1, 1)


def rejection(snapshot: Snapshot, null_device: bool = False) -> str | None:
    """Reason why this device cannot be used; None where it can.

    ``null_device``: one that computes nothing can.
    """
    if snapshot.api_version[:2] < OLDEST_API:
        version = ".".join(map(str, snapshot.api_version))
        return f"its driver has Vulkan {version}; 1.1 is needed"
    if snapshot.compute_family is None:
        return "it has no compute queue"
    if snapshot.is_null and not null_device:
        return "it is a null device, which computes nothing (set VKNN_NULL_DEVICE=1 to allow it)"
    return unusable(snapshot)


def is_host(selector: str) -> bool:
    """Whether a selector means the NumPy reference, whatever the devices are called.

    Raises DeviceError for what is no text.
    """
    if not isinstance(selector, str):
        raise DeviceError(
            f"device={selector!r}: expected text, such as 'vulkan', 'numpy' or a part of a "
            "device's name, or an open Device"
        )
    return selector.strip().lower() in HOST_DEVICES


def refuse_host(selector: str) -> None:
    """Check that a selector does not mean the NumPy reference; raises DeviceError if it does."""
    if is_host(selector):
        raise DeviceError(f"{selector!r} is the NumPy reference; a Vulkan device is needed here")


def choose(
    snapshots: Sequence[Snapshot], selector: str = "auto", null_device: bool = False
) -> Snapshot:
    """The device that ``selector`` means.

    "auto" and "vulkan": the first of the best kind (discrete, integrated, virtual, CPU);
    "vulkan:1": the device of that index; anything else: the best whose name or driver contains it.
    ``null_device``: a device that computes nothing may be meant by its index or name; "auto" and
    "vulkan" never mean one. Raises DeviceError, naming the devices there are, where none fits, and
    for "numpy" or "cpu", which are no Vulkan device.
    """
    refuse_host(selector)
    if not snapshots:
        raise no_driver()
    if match := re.fullmatch(r"vulkan:(\d+)", selector.strip().lower()):
        return _by_index(snapshots, int(match.group(1)), null_device)
    wanted = selector.strip().lower()
    everything = wanted in ("", "auto", "vulkan")
    named = [s for s in snapshots if everything or wanted in f"{s.name} {s.driver_name}".lower()]
    if not named:
        raise DeviceError(f"no device matches {selector!r}; there are {_listing(snapshots)}")
    reasons_by_device = {s: _not_meant(s, null_device, everything) for s in named}
    usable = [s for s, reason in reasons_by_device.items() if reason is None]
    if not usable:
        reasons = "; ".join(f"{s.name}: {reason}" for s, reason in reasons_by_device.items())
        kind = NullDeviceError if all(s.is_null for s in named) else DeviceError
        raise kind(f"no usable device matches {selector!r}: {reasons}")
    return min(usable, key=lambda s: (ORDER.index(s.kind), s.index))


def _not_meant(snapshot: Snapshot, null_device: bool, everything: bool) -> str | None:
    """Reason why a selector that fits a device does not mean it."""
    if everything and snapshot.is_null and null_device:
        return "it is a null device, which computes nothing: give its name or index to use it"
    return rejection(snapshot, null_device)


def _by_index(snapshots: Sequence[Snapshot], index: int, null_device: bool) -> Snapshot:
    for snapshot in snapshots:
        if snapshot.index == index:
            reason = rejection(snapshot, null_device)
            if reason is not None:
                kind = NullDeviceError if snapshot.is_null else DeviceError
                raise kind(f"vulkan:{index} ({snapshot.name}) cannot be used: {reason}")
            return snapshot
    raise DeviceError(f"there is no device vulkan:{index}; there are {_listing(snapshots)}")


def _listing(snapshots: Sequence[Snapshot]) -> str:
    return ", ".join(f"vulkan:{s.index} ({s.name})" for s in snapshots)
