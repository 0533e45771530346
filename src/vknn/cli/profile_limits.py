"""Ceilings of the roofline: from a file, remembered, or a word about how to get them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from vknn.errors import VknnError
from vknn.printable import one_line
from vknn.profiling import Limits, Profile

#: Selectors that stand for the device that is measured without one.
_USUAL = ("auto", "vulkan")


def read_limits(path: Path | None) -> Limits | None:
    """The limits that ``vknn bench --device-limits --json`` wrote to a file, None without one."""
    if path is None:
        return None
    try:
        return Limits.from_json(path.read_text(encoding="utf-8"))
    except (VknnError, UnicodeDecodeError) as error:
        raise VknnError(f"{path}: {error}") from None


def note_missing(profile: Profile, remedy: str) -> None:
    """A line to stderr where the roofline of a profile of a device has no measured ceilings."""
    about = profile.about or {}
    if about.get("device") is not None and about.get("limits") is None:
        print(f"vknn: the roofline has no measured ceilings: {remedy}", file=sys.stderr)


def note_other(device: str | None, limits: Limits) -> None:
    """A line to stderr where limits are of another device than ``device``, which None is not."""
    if device is not None and device != limits.device:
        names = (one_line(name) for name in (limits.device, device))
        print("vknn: the limits are of {}, the profile is of {}".format(*names), file=sys.stderr)


def measuring(device: str) -> str:
    """Words about the command that measures a device's limits, for profiles from then on."""
    chosen = "" if device in _USUAL else f" --device {shlex.quote(device)}"
    return f"`vknn bench --device-limits{chosen}` measures them, once for a device and driver"
