"""The machine made ready: the kit's packages, a Vulkan loader and a driver for child processes.

Wheels are unpacked, not installed, so neither pip nor a virtual environment is needed. Libraries
of the kit are used only where the machine has none. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import os
import platform
import sys
import tarfile
import zipfile
from pathlib import Path

#: Where the Vulkan loader looks by itself, and where NVIDIA's manifest lies in containers.
DRIVERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
NVIDIA = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
#: NVIDIA's drivers, where no manifest names one: the one without X11 first.
NVIDIA_LIBRARIES = ("libEGL_nvidia.so.0", "libGLX_nvidia.so.0")
NVIDIA_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")


class Unfit(Exception):
    """The reason why the kit cannot be run here."""


def prepare(kit: Path, work: Path) -> dict[str, str]:
    """Environment of the children. ``work``: a folder for what is unpacked. Raises Unfit."""
    try:
        unpack_wheels(kit / "wheels", work / "packages")
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile) as error:
        lines = str(error).splitlines()  # tarfile's has one for each format
        why = lines[0] if lines else type(error).__name__
        raise Unfit(f"the kit's wheels cannot be unpacked: {why}") from error
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VKNN_"))}
    for name in ("VKNN_NULL_DEVICE", "VKNN_DISABLE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    libraries = _missing_libraries(kit / "libraries", work / "libraries")
    if libraries is not None:
        paths = [environment.get("LD_LIBRARY_PATH"), str(libraries)]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    if (manifest := _driver(work)) is not None:
        environment |= {"VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest}
    return environment | {
        "PYTHONPATH": os.pathsep.join([str(work / "packages"), str(kit)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "VKNN_CACHE_DIR": str(work / "cache"),
        "VKNN_VALIDATE": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "200",
    }


def lacking(kit: Path) -> list[str]:
    """Parts of a kit that are not in its folder."""
    parts = ("wheels/vknn.tar.xz", "networks/shapes.json", "libraries", "tests", "packed.json")
    return [part for part in parts if not (kit / part).exists()]


def unpack_wheels(wheels: Path, target: Path) -> None:
    """The wheels that fit this Python, side by side in one folder. Raises Unfit where there are
    none for it."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unfit(f"the kit is for Linux on x86_64, not {platform.system()} {platform.machine()}")
    here = f"{sys.version_info[0]}{sys.version_info[1]}"
    chosen = [path for path in sorted(wheels.glob("*.whl")) if fits(path.name, here)]
    if not any(path.name.startswith("cffi-") for path in chosen):
        packed = sorted({p.stem.split("-")[-3] for p in wheels.glob("cffi-*.whl")})
        raise Unfit(f"this Python is cp{here}; the kit was packed for {', '.join(packed)}")
    for path in chosen:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(target)
    with tarfile.open(wheels / "vknn.tar.xz") as vknn:
        if hasattr(tarfile, "data_filter"):
            vknn.extractall(target, filter="data")
        else:
            vknn.extractall(target)


def fits(wheel: str, version: str) -> bool:
    """Whether a wheel's tags are for CPython of a version like "312", or of any."""
    python, abi = wheel.removesuffix(".whl").split("-")[-3:-1]
    if abi == "none":
        return "py3" in python.split(".")
    first = min(tag.removeprefix("cp") for tag in python.split("."))
    return first == version if abi != "abi3" else int(first[1:]) <= int(version[1:])


def _missing_libraries(source: Path, target: Path) -> Path | None:
    """A folder of links to those libraries of the kit that this machine lacks; None: none."""
    missing = [path for path in sorted(source.glob("lib*.so.*")) if not _loads(path.name)]
    for path in missing:
        target.mkdir(parents=True, exist_ok=True)
        (target / path.name).symlink_to(path)
    return target if missing else None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _driver(work: Path) -> str | None:
    """A manifest that the loader does not find by itself; None where it needs no help."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if named or any(any(Path(folder).glob("nvidia*.json")) for folder in DRIVERS):
        return None
    if Path(NVIDIA).is_file():
        return NVIDIA
    for name in NVIDIA_LIBRARIES:
        for folder in NVIDIA_FOLDERS:
            library = Path(folder) / name
            if library.exists():
                return _write_manifest(work / "nvidia_icd.json", library)
    return None


def _write_manifest(path: Path, library: Path) -> str:
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}), encoding="utf-8")
    return str(path)
