"""Measured speeds of devices, remembered: a JSON file for each device and driver.

``vknn bench --device-limits`` writes it; plans for the device are estimated by it from then on.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from vknn.plan import MeasuredSpeeds
from vknn.runtime.cachefile import device_key
from vknn.runtime.json_cache import JsonCache
from vknn.runtime.snapshot import Snapshot

#: No device is beyond these, in whatever unit; numbers that are would make estimates infinite.
_LEAST, _MOST = 1e-15, 1e15


def speeds_file(folder: Path, snapshot: Snapshot) -> Path:
    """File of what was measured on this device with this driver version."""
    return folder / "speeds" / f"{device_key(snapshot)}.json"


def load(folder: Path, snapshot: Snapshot) -> MeasuredSpeeds | None:
    """The speeds measured on this device earlier; None on CPUs and null devices."""
    return _CACHE.load(speeds_file(folder, snapshot)) if is_remembered(snapshot) else None


def store(folder: Path, snapshot: Snapshot, speeds: MeasuredSpeeds) -> Path | None:
    """The file that keeps them; None where they are not kept. Raises VknnError."""
    if not is_remembered(snapshot):
        return None
    path = speeds_file(folder, snapshot)
    _CACHE.store(path, asdict(speeds))
    return path


def is_remembered(snapshot: Snapshot) -> bool:
    """True where plans are estimated by measured speeds.

    Estimates for CPUs count workgroups and vector instructions, for which peaks say nothing; a null
    device has no speed.
    """
    return snapshot.kind != "cpu" and not snapshot.is_null


def _parse(content: Any) -> MeasuredSpeeds:
    names = {field.name for field in fields(MeasuredSpeeds)}
    if not isinstance(content, dict) or content.keys() != names:
        raise ValueError(f"it has not just {', '.join(sorted(names))}")
    for name, value in content.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not _LEAST <= value <= _MOST:
            raise ValueError(f"{name} is {value!r:.80}")
    return MeasuredSpeeds(**content)


_CACHE = JsonCache(
    "vknn speeds", 1, "speeds", _parse, "`vknn bench --device-limits` writes a new one"
)
