"""Drivers as the loader finds them: their manifests, and what is wrong with these.

The places are those of the Vulkan loader's documentation (LoaderDriverInterface.md, "Driver
Discovery on Linux"). Elsewhere than on Linux nothing is known of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vknn.errors import DeviceError

#: Variables that name manifests in place of all that would be found; loaders before 1.3.207 know
#: the second only.
ONLY_THESE = "VK_DRIVER_FILES", "VK_ICD_FILENAMES"
#: Manifests are small; what is larger is none.
_MAX_BYTES = 1 << 20
#: What dlopen says of a library of another architecture, of which systems may have drivers, too.
_OTHER_MACHINE = "wrong ELF class"


@dataclass(frozen=True)
class Fault:
    """A driver that cannot be used. ``deadly``: where it is found no other can be used either."""

    manifest: Path
    reason: str
    deadly: bool = True


def manifests(environment: Mapping[str, str] | None = None) -> list[Path]:
    """The manifests of the drivers, in the loader's order; empty where its places are not known."""
    if sys.platform != "linux":
        return []
    env = os.environ if environment is None else environment
    named = next((env[name] for name in ONLY_THESE if name in env), None)
    places = _paths(env.get("VK_ADD_DRIVER_FILES")) if named is None else _paths(named)
    found: dict[Path, None] = {}
    for place in places:
        found.update(dict.fromkeys(_inside(place) if place.is_dir() else [place]))
    for folder in _folders(env) if named is None else ():
        found.update(dict.fromkeys(_inside(folder)))
    return list(found)


def only(files: Sequence[Path]) -> dict[str, str]:
    """Variables with which the loader knows these drivers alone."""
    return dict.fromkeys(ONLY_THESE, os.pathsep.join(map(str, files)))


def fault(manifest: Path) -> Fault | None:
    """The fault of a manifest or its library; None where the loader can use them.

    The library is loaded for that: it should be at hand, by an instance of Vulkan, or be known to
    do no harm.
    """
    try:
        with manifest.open("rb") as file:
            text = file.read(_MAX_BYTES)
    except OSError as error:
        return Fault(manifest, f"the manifest cannot be read: {error.strerror}", deadly=False)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Fault(manifest, f"the manifest is no JSON: {str(error)[:100]}")
    about = document.get("ICD") if isinstance(document, dict) else None
    library = about.get("library_path") if isinstance(about, dict) else None
    if not isinstance(library, str) or not library or "\0" in library:
        return Fault(manifest, "the manifest names no library (ICD, library_path)", deadly=False)
    if "/" in library:
        library = str(manifest.parent / library)
    try:
        ctypes.CDLL(library)
    except OSError as error:
        if _OTHER_MACHINE in str(error):
            return None
        return Fault(manifest, f"its library cannot be loaded: {error}", deadly=False)
    return None


def faults() -> list[Fault]:
    """The faults of the manifests and libraries of all drivers (see :func:`fault`)."""
    return [found for found in map(fault, manifests()) if found is not None]


def remedy(bad: Sequence[Path]) -> str:
    """Text of how to go on without some drivers."""
    good = [path for path in manifests() if path not in bad]
    if not good:
        return "repair or remove it, or install another (Debian: apt install mesa-vulkan-drivers)"
    return (
        f"repair or remove it, or leave it out by VK_DRIVER_FILES={os.pathsep.join(map(str, good))}"
    )


def explained(what: str) -> DeviceError | None:
    """The error for a step that the loader could not do where drivers' files are at fault."""
    found = faults()
    if not found:
        return None
    told = "; ".join(f"{fault.manifest}: {fault.reason}" for fault in found)
    begin = f"{what} failed" if any(fault.deadly for fault in found) else "no Vulkan driver"
    return DeviceError(f"{begin}: {told}; {remedy([fault.manifest for fault in found])}")


def _inside(folder: Path) -> list[Path]:
    """The manifests of a folder; none where it cannot be read."""
    return sorted(folder.glob("*.json")) if os.access(folder, os.R_OK | os.X_OK) else []


def _paths(text: str | None) -> list[Path]:
    return [Path(part) for part in (text or "").split(os.pathsep) if part]


def _folders(env: Mapping[str, str]) -> list[Path]:
    """The folders that hold manifests, those of the user in front."""
    home = env.get("HOME", "")
    bases = [
        *_paths(env.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")),
        *_paths(env.get("XDG_CONFIG_DIRS") or "/etc/xdg"),
        *_paths("/usr/local/etc:/etc"),
        *_paths(env.get("XDG_DATA_HOME") or (home and f"{home}/.local/share")),
        *_paths(env.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"),
    ]
    return [base / "vulkan" / "icd.d" for base in bases]
