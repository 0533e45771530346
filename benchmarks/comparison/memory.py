"""Peak device memory of any engine, counted by a Vulkan layer between it and the driver."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

NAME = "VK_LAYER_VKNN_memory"
LOG = "VKNN_MEMORY_LOG"
SOURCE = Path(__file__).with_name("memory_layer.c")


def build_layer(folder: Path) -> Path | None:
    """Path of the layer, compiled into ``folder``; None without a C compiler for this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or os.name != "posix":
        return None
    library = folder / "libVkLayer_vknn_memory.so"
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
    command = [compiler, *flags, str(SOURCE), "-o", str(library), "-lpthread"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return None
    manifest = {
        "file_format_version": "1.1.2",
        "layer": {
            "name": NAME,
            "type": "GLOBAL",
            "library_path": str(library),
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "counts device memory",
        },
    }
    (folder / f"{NAME}.json").write_text(json.dumps(manifest))
    return folder


def layer_environment(layer: Path, log: Path) -> dict[str, str]:
    """Environment of a process whose memory is counted into ``log``."""
    return {"VK_LAYER_PATH": str(layer), "VK_INSTANCE_LAYERS": NAME, LOG: str(log)}


def peak(log: Path) -> int | None:
    """The most bytes in use at once; None where nothing was counted."""
    try:
        _, most, count = struct.unpack("=QQQ", log.read_bytes())
    except (OSError, struct.error):
        return None
    return most if count else None
