"""Memory of the host that is still free."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: Share of the free memory that a network may take where no limit is stated.
SHARE = 0.75
#: Limit and use of a control group, in versions 2 and 1.
_GROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def free_host_memory() -> int | None:
    """Bytes of memory that the process may still have; None where the system does not tell."""
    sizes = [_available(), _of_the_group()]
    return min((size for size in sizes if size is not None), default=None)


def allowed_host_memory(limit: int | None = None) -> int | None:
    """Bytes that a network may take of the host: its limit, or a share of what is free."""
    if limit is not None:
        return limit
    free = free_host_memory()
    return None if free is None else int(SHARE * free)


def _available() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except (OSError, ValueError):
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None
    match = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) << 10 if match else None


def _of_the_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the control group (a container's limit) leaves, of either version of the interface."""
    for most, used in _GROUP_FILES:
        try:
            return max(0, int((root / most).read_text()) - int((root / used).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return None
