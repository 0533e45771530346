"""Processes of this machine: what tells one from others of its number, and whether it lives."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import uuid
from pathlib import Path

#: PROCESS_QUERY_LIMITED_INFORMATION and STILL_ACTIVE of Windows.
_MAY_ASK, _LIVES = 0x1000, 259


def this_machine() -> str:
    """Name that tells this machine and its processes' numbers from others; empty: there is none."""
    if sys.platform in ("win32", "darwin"):
        return f"{platform.node()} {uuid.getnode():012x}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_of(pid: int) -> str:
    """Beginning of a process of this machine in the system's words; empty: it is not there."""
    if sys.platform == "win32":
        return _windows_start_of(pid)
    if sys.platform == "darwin":
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state == "Z" else fields[18]


def _windows_start_of(pid: int) -> str:
    """By GetProcessTimes: the time of creation in units of 100 ns.

    A process that has ended is there for as long as anybody holds a handle of it.
    """
    kernel = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 - other systems' ctypes has none
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(kernel.OpenProcess(_MAY_ASK, False, pid))
    if not handle:
        return ""
    try:
        code, times = ctypes.c_uint32(), (ctypes.c_uint64 * 4)()
        addresses = [ctypes.byref(times, 8 * place) for place in range(4)]
        if not kernel.GetExitCodeProcess(handle, ctypes.byref(code)) or code.value != _LIVES:
            return ""
        return str(times[0]) if kernel.GetProcessTimes(handle, *addresses) else ""
    finally:
        kernel.CloseHandle(handle)
