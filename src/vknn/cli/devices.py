"""``vknn devices``"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from rich.table import Table

from vknn import environment
from vknn.cli.arguments import add_json
from vknn.cli.complaints import FAILED, USER_ERROR
from vknn.cli.driver_search import found_devices
from vknn.cli.output import show, write_json
from vknn.cli.watched import add_time_limit, time_limit
from vknn.errors import DeviceError
from vknn.printable import one_line
from vknn.runtime import Snapshot, devices, measured_speeds
from vknn.runtime.compute_units import compute_units
from vknn.runtime.device_selection import choose, rejection
from vknn.runtime.quirks import device_limits

_COLUMNS = "", "device", "name", "kind", "Vulkan", "driver", "memory", "subgroup", "features"


#: Seconds that drivers may take to list their devices: GPUs that sleep take some to wake.
SECONDS = 60.0


def add(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    add_time_limit(parser, SECONDS, "does not list its devices")


def run(args: argparse.Namespace) -> int:
    """List of the devices; the one that "auto" means is marked. 1 where a driver is at fault."""
    found = found_devices(_rows, time_limit(args, SECONDS))
    for line in found.left_out:
        print(f"vknn: warning: driver left out: {one_line(line)}", file=sys.stderr)
    for line in found.failed:
        print(f"vknn: error: {one_line(line)}", file=sys.stderr)
    if found.rows or args.json:
        _show(found.rows, args.json)
        return FAILED if found.failed else 0
    if not found.failed:
        raise DeviceError("there is no Vulkan device (Debian: apt install mesa-vulkan-drivers)")
    return USER_ERROR


def _rows() -> list[dict[str, Any]]:
    found = devices()
    default = _default(found)
    return [_row(s, default is not None and s.index == default.index) for s in found]


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        write_json(rows)
        return
    table = Table()
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    lasting = Table("device", "names that last")
    for row in rows:
        table.add_row(
            "*" if row["default"] else "",
            row["device"],
            row["name"] if row["usable"] else f"{row['name']} ({row['rejection']})",
            row["kind"],
            row["api_version"],
            row["driver"],
            f"{row['memory'] / 2**30:.1f} GiB",
            str(row["subgroup_size"]),
            " ".join(row["features"]),
        )
        lasting.add_row(row["device"], "  ".join(row["names"]) or "none")
    show(table)
    show(lasting)


def _limits(snapshot: Snapshot, disabled: frozenset[str]) -> dict[str, Any]:
    """The limits that plans are made for; `vknn export --target FILE` reads them."""
    limits = asdict(device_limits(snapshot, disabled))
    told = {"name", "kind", "features", "subgroup_size", "compute_units", "speeds"}
    return {name: value for name, value in limits.items() if name not in told}


def _default(found: list[Snapshot]) -> Snapshot | None:
    try:
        return choose(found, environment.device(), environment.read().null_device)
    except DeviceError:
        return None


def _row(snapshot: Snapshot, default: bool) -> dict[str, Any]:
    env = environment.read()
    reason = rejection(snapshot, env.null_device)
    units, speeds = compute_units(snapshot), measured_speeds.load(env.cache_path(), snapshot)
    return {
        "device": f"vulkan:{snapshot.index}",
        "name": snapshot.name,
        "kind": snapshot.kind,
        "default": default,
        "usable": reason is None,
        "rejection": reason,
        "api_version": ".".join(map(str, snapshot.api_version)),
        "driver": f"{snapshot.driver_name} {snapshot.driver_info}".strip(),
        "memory": snapshot.memory_bytes,
        "subgroup_size": snapshot.subgroup_size,
        "features": sorted(snapshot.features),
        **_limits(snapshot, env.disabled),
        "compute_units": None if units is None else asdict(units),
        "measured_speeds": None if speeds is None else asdict(speeds),
        "uuid": snapshot.uuid.hex(),
        "pci": snapshot.pci,
        "names": snapshot.lasting_names,
    }
