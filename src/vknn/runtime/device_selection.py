"""Selection of a device: which one a selector means. Pure; tested without a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vknn.errors import DeviceError, NullDeviceError
from vknn.runtime.quirks import unusable
from vknn.runtime.snapshot import Snapshot, uuid_selector
from vknn.runtime.vulkan.vk_result import no_driver

#: Selectors of the NumPy reference, which is no Vulkan device; never taken as parts of names.
HOST_DEVICES = ("numpy", "cpu", "reference")
ORDER = ("discrete", "integrated", "virtual", "other", "cpu")
OLDEST_API = (1, 1)

#: What a name begins with that lasts -> how it is written.
LASTING = {
    "uuid:": "uuid: and 32 hexadecimal digits, such as uuid:8c0a7f3e-1b2d-4c5e-9f60-718293a4b5c6",
    "pci:": "pci:[DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal, such as pci:0000:3b:00.0",
}
#: As CUDA's tools write it, as UUIDs are written, or digits alone.
_UUID = re.compile(r"uuid:(?:gpu-)?([0-9a-f]{8}(-?)[0-9a-f]{4}(?:\2[0-9a-f]{4}){2}\2[0-9a-f]{12})")
_PCI = re.compile(r"pci:(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])")


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
        return (
            "it is a null device, which computes nothing (VKNN_NULL_DEVICE=1 or --null-device "
            "allows it)"
        )
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
    "vulkan:1": the device of that index; "uuid:..." and "pci:...": the first of that UUID or PCI
    address (drivers of one GPU share both) that can be used; anything else: the best whose name or
    driver contains it. ``null_device``: a device that computes nothing may be meant by its index
    or a name; "auto" and "vulkan" never mean one. Raises DeviceError, naming the devices there are,
    where none fits, for a UUID or address that is not written as one, and for "numpy" or "cpu",
    which are no Vulkan device.
    """
    refuse_host(selector)
    if not snapshots:
        raise no_driver()
    wanted = selector.strip().lower()
    if match := re.fullmatch(r"vulkan:(\d+)", wanted):
        return _by_index(snapshots, int(match.group(1)), null_device)
    if lasting := _lasting_name(selector):
        return _by_lasting_name(snapshots, lasting, null_device)
    everything = wanted in ("", "auto", "vulkan")
    named = [s for s in snapshots if everything or wanted in f"{s.name} {s.driver_name}".lower()]
    if not named:
        raise DeviceError(f"no device matches {selector!r}; there are {_listing(snapshots)}")
    usable = _usable({s: _not_meant(s, null_device, everything) for s in named}, selector)
    return min(usable, key=lambda s: (ORDER.index(s.kind), s.index))


def _usable(reasons: Mapping[Snapshot, str | None], selector: str) -> list[Snapshot]:
    """The devices against which there is no reason; raises DeviceError with all where none is."""
    usable = [s for s, reason in reasons.items() if reason is None]
    if not usable:
        told = "; ".join(f"{s.name}: {reason}" for s, reason in reasons.items())
        kind = NullDeviceError if all(s.is_null for s in reasons) else DeviceError
        raise kind(f"no usable device matches {selector!r}: {told}")
    return usable


def _not_meant(snapshot: Snapshot, null_device: bool, everything: bool) -> str | None:
    """Reason why a selector that fits a device does not mean it."""
    if everything and snapshot.is_null:
        if null_device:
            return "it is a null device, which computes nothing: give its name or index to use it"
        return (
            "it is a null device, which computes nothing (its name or index, and "
            "VKNN_NULL_DEVICE=1 or --null-device, allow it)"
        )
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


def _lasting_name(selector: str) -> str | None:
    """A selector by UUID or PCI address, written as snapshots do; None for any other.

    Raises DeviceError for one that begins as such and is not written so.
    """
    wanted = selector.strip().lower()
    written = next((how for start, how in LASTING.items() if wanted.startswith(start)), None)
    if written is None:
        return None
    if match := _UUID.fullmatch(wanted):
        return uuid_selector(bytes.fromhex(match[1].replace("-", "")))
    if match := _PCI.fullmatch(wanted):
        return f"pci:{int(match[1] or '0', 16):04x}:{match[2]}"
    raise DeviceError(f"device={selector!r}: write it as {written}; `vknn devices` lists them")


def _by_lasting_name(snapshots: Sequence[Snapshot], name: str, null_device: bool) -> Snapshot:
    named = [s for s in snapshots if name in s.lasting_names]
    if not named:
        told = (f"vulkan:{s.index} ({', '.join((s.name, *s.lasting_names))})" for s in snapshots)
        raise DeviceError(f"there is no device {name}; there are {', '.join(told)}")
    return _usable({s: rejection(s, null_device) for s in named}, name)[0]


def _listing(snapshots: Sequence[Snapshot]) -> str:
    return ", ".join(f"vulkan:{s.index} ({s.name})" for s in snapshots)
