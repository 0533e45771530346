"""The layer of benchmarks/vulkan_layer: built on this machine, and switched on for a process."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

NAME = "VK_LAYER_VKNN_calls"
LOG, FOLDER = "VKNN_CALLS_LOG", "VKNN_CALLS_FOLDER"
SOURCES = Path(__file__).resolve().parents[1] / "vulkan_layer"
#: Debian's package of Vulkan's headers, unpacked into a folder of its own.
PACKAGE = "libvulkan-dev"
SYSTEM_HEADERS = Path("/usr/include")


class Unbuildable(Exception):
    """The reason why the layer cannot be built on this machine."""


def built(cache: Path) -> Path:
    """The folder with the layer and its manifest, made under ``cache`` unless newer than the
    sources. Raises Unbuildable."""
    folder = cache / "vulkan_layer"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libVkLayer_vknn_calls.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
        if not library.exists() or library.stat().st_mtime < newest:
            _compile(library, headers(folder))
            (folder / f"{NAME}.json").write_text(json.dumps(_manifest(library)))
    return folder


def environment(layer: Path, log: Path, texts: Path | None = None) -> dict[str, str]:
    """Variables of a process whose calls go to ``log``, what its compiler read and wrote to the
    folder ``texts``."""
    found = {"VK_LAYER_PATH": str(layer), "VK_INSTANCE_LAYERS": NAME, LOG: str(log)}
    return found | ({FOLDER: str(texts)} if texts else {})


def headers(folder: Path) -> Path:
    """The folder that holds vulkan/vk_layer.h: the system's, else Debian's unpacked into
    ``folder``. Raises Unbuildable."""
    own = folder / "headers"
    for place in (SYSTEM_HEADERS, own / "usr" / "include"):
        if (place / "vulkan" / "vk_layer.h").exists():
            return place
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unbuildable(f"no headers of Vulkan, and no {tool} to fetch {PACKAGE} with")
    own.mkdir(exist_ok=True)
    done = _run(["apt-get", "-qq", "download", PACKAGE], own)
    packages = list(own.glob("*.deb"))
    if done.returncode != 0 or not packages:
        raise Unbuildable(f"no headers of Vulkan, and apt-get does not fetch {PACKAGE}")
    _run(["dpkg-deb", "-x", packages[0].name, "."], own)
    packages[0].unlink()
    return own / "usr" / "include"


def _compile(library: Path, include: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise Unbuildable("no C compiler (cc, gcc, clang)")
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{include}"]
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    done = _run([compiler, *flags, "-o", str(library), *sources, "-lpthread"], library.parent)
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[:1] or ["no message"]
        raise Unbuildable(f"{compiler} does not build the layer: {last[0]}")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, text=True, check=False, **streams)


def _manifest(library: Path) -> dict[str, object]:
    about = {
        "name": NAME,
        "type": "GLOBAL",
        "library_path": str(library),
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "writes down what an engine asks of a device",
    }
    return {"file_format_version": "1.1.2", "layer": about}
