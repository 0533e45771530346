"""Search for the driver at fault, where listing the devices crashes or never ends.

Each driver is tried apart, in a process of its own; then the others are listed without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vknn.cli.complaints import error_text
from vknn.cli.watched import DriverFault, watched
from vknn.errors import DeviceError
from vknn.runtime import driver_watch
from vknn.runtime.vulkan import drivers, instance

Rows = list[dict[str, Any]]
#: Switches all layers off, in loaders from 1.3.234 on.
_NO_LAYERS = {"VK_LOADER_LAYERS_DISABLE": "~all~"}


@dataclass(frozen=True)
class FoundDevices:
    """The devices, lines about drivers that list none, and lines about those that stop others."""

    rows: Rows
    left_out: list[str]
    failed: list[str]


def found_devices(rows: Callable[[], Rows], seconds: float) -> FoundDevices:
    """The devices of all drivers that work; ``rows`` lists them.

    ``seconds``: that drivers may take, together and each apart. Raises what ``rows`` does where no
    driver is to blame.
    """
    try:
        listed, unusable = watched(lambda: _listed(rows), seconds)
        return FoundDevices(listed, unusable, [])
    except DeviceError as error:
        if not isinstance(error, DriverFault) and not drivers.manifests():
            raise  # no loader, or nothing to find
        return _apart(rows, seconds, error)


def _listed(rows: Callable[[], Rows]) -> tuple[Rows, list[str]]:
    """The devices, and the drivers that the loader left out."""
    with driver_watch.at(driver_watch.ALL, "listing the devices"):
        instance.acquire()  # so that the libraries of drivers are at hand
        try:
            return rows(), [f"{f.manifest}: {f.reason}" for f in drivers.faults()]
        finally:
            instance.release()


def _apart(rows: Callable[[], Rows], seconds: float, error: DeviceError) -> FoundDevices:
    """The devices without the drivers at fault; where none is, ``error`` is what is told."""
    reasons: dict[Path, str] = {}
    deadly = set()
    for manifest in drivers.manifests():
        try:
            fault = watched(partial(_fault, manifest, rows), seconds, drivers.only([manifest]))
        except DriverFault as fallen:
            fault = {"reason": fallen.how, "deadly": True}
        if fault is not None:
            reasons[manifest] = fault["reason"]
            deadly |= {manifest} if fault["deadly"] else set()
    good = [path for path in drivers.manifests() if path not in reasons]
    if isinstance(error, DriverFault) and not (good and deadly):
        without = _without_layers(rows, seconds)
        if without is not None:
            return without
    left_out = [f"{path}: {reason}" for path, reason in reasons.items() if path not in deadly]
    if not deadly:
        return FoundDevices([], [], [error_text(error)])
    remedy = drivers.remedy(list(reasons))
    failed = [f"{path}: {reasons[path]}; {remedy}" for path in reasons if path in deadly]
    try:
        listed = watched(rows, seconds, drivers.only(good)) if good else []
    except DeviceError as second:
        return FoundDevices([], left_out, [*failed, error_text(second)])
    return FoundDevices(listed, left_out, failed)


def _fault(manifest: Path, rows: Callable[[], Rows]) -> dict[str, Any] | None:
    """The fault of the one driver that the process knows; None where it works."""
    with driver_watch.at(str(manifest), "listing the devices"):
        found = drivers.fault(manifest)
        if found is not None:
            return {"reason": found.reason, "deadly": found.deadly}
        with contextlib.suppress(DeviceError):  # one without devices is not at fault
            rows()
        return None


def _without_layers(rows: Callable[[], Rows], seconds: float) -> FoundDevices | None:
    """The devices where layers are off, and that these are at fault; None where they are not."""
    try:
        listed = watched(rows, seconds, _NO_LAYERS)
    except DeviceError:
        return None
    text = "a Vulkan layer crashes or hangs; leave layers out by VK_LOADER_LAYERS_DISABLE=~all~"
    return FoundDevices(listed, [], [text])
