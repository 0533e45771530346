"""The machine in JSON: processor, system, Python, the Vulkan loader, NVIDIA's own report."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path


def processor() -> str:
    """The processor's name, as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def loader() -> dict[str, str]:
    """The Vulkan loader's version and file."""
    try:
        library = ctypes.CDLL("libvulkan.so.1")
    except OSError as error:
        return {"error": str(error)}
    version = ctypes.c_uint32()
    library.vkEnumerateInstanceVersion(ctypes.byref(version))
    v = version.value
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {line.split()[-1] for line in maps if "libvulkan.so" in line}
    return {"version": f"{v >> 22}.{v >> 12 & 1023}.{v & 4095}", "file": ", ".join(sorted(files))}


def nvidia() -> str | None:
    """Report of nvidia-smi; None where there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    done = subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, timeout=20)
    return done.stdout[:20000] or done.stderr[:2000]


if __name__ == "__main__":
    packages = ("vknn", "numpy", "ncnn", "vulkan", "cffi", "pytest")
    report = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "c library": " ".join(platform.libc_ver()),
        "loader": loader(),
        "variables": {k: v for k, v in os.environ.items() if k.startswith(("VK_", "LD_LIBRARY"))},
        "packages": {name: metadata.version(name) for name in packages},
        "nvidia-smi": nvidia(),
    }
    print(json.dumps(report, indent=1))
