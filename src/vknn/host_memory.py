"""Memory of the host that is still free, and what the process had of it."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Any

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


def peak_memory() -> int:
    """Bytes of memory that this process had at most; 0 where that is not told."""
    if sys.platform == "win32":
        return _windows_peak()
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)


def _available() -> int | None:
    if sys.platform == "win32":
        return _windows_available()
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


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows' sysinfoapi.h."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("available", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 5),
    )


class _ProcessMemory(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of Windows' psapi.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("faults", ctypes.c_uint32),
        ("peak", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 7),
    )


def _windows_available() -> int | None:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if not _kernel32().GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.available)


def _windows_peak() -> int:
    counters = _ProcessMemory(size=ctypes.sizeof(_ProcessMemory))
    own = ctypes.c_void_p(-1)  # the handle that GetCurrentProcess gives
    found = _kernel32().K32GetProcessMemoryInfo(own, ctypes.byref(counters), counters.size)
    return int(counters.peak) if found else 0


def _kernel32() -> Any:
    return getattr(ctypes, "windll").kernel32  # noqa: B009 - other systems' ctypes has none
