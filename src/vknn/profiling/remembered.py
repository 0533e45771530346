"""Limits of devices, remembered: a JSON file for each device and driver version.

``vknn bench --device-limits`` writes it; profiles of the device have these ceilings from then on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.errors import VknnError
from vknn.profiling.limits import Limits
from vknn.runtime import Device, Snapshot
from vknn.runtime.cachefile import device_key
from vknn.runtime.json_cache import JsonCache


def limits_file(snapshot: Snapshot) -> Path:
    """File of the limits of this device with this driver version."""
    return environment.read().cache_path() / "limits" / f"{device_key(snapshot)}.json"


def remembered_limits(device: Device) -> Limits | None:
    """The limits measured on this device earlier; None where there are none, or it computes
    nothing."""
    snapshot = device.snapshot
    return None if snapshot.is_null else _CACHE.load(limits_file(snapshot))


def remember_limits(device: Device, limits: Limits) -> Path | None:
    """The file that keeps limits; None for a null device, which has none. Raises VknnError."""
    if device.snapshot.is_null:
        return None
    path = limits_file(device.snapshot)
    _CACHE.store(path, json.loads(limits.to_json()))
    return path


def _parse(content: Any) -> Limits:
    try:
        return Limits.from_json(json.dumps(content))
    except VknnError as error:
        raise ValueError(str(error)) from None


_CACHE = JsonCache(
    "vknn limits", 1, "limits", _parse, "`vknn bench --device-limits` writes a new one"
)
