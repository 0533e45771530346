"""Vulkan layers in C: built on this machine, and switched on for a process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOG, FOLDER = "VKNN_CALLS_LOG", "VKNN_CALLS_FOLDER"


@dataclass(frozen=True)
class Layer:
    """A layer: its name for the loader, the folder of its sources, what it does.

    It is built in the folder of the cache that has the name of the sources' folder.
    """

    name: str
    sources: Path
    description: str

    @property
    def library(self) -> str:
        """Name of the library's file."""
        return f"libVkLayer_{self.name.removeprefix('VK_LAYER_').lower()}.so"


#: The layer that writes down what an engine asks of a device.
CALLS = Layer(
    "VK_LAYER_VKNN_calls",
    Path(__file__).resolve().parents[1] / "vulkan_layer",
    "writes down what an engine asks of a device",
)
#: Debian's package of Vulkan's headers, unpacked into a folder of its own.
PACKAGE = "libvulkan-dev"
SYSTEM_HEADERS = Path("/usr/include")


class Unbuildable(Exception):
    """The reason why the layer cannot be built on this machine."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A block for one process at a time. Raises Unbuildable on Windows, which has other locks."""
    try:
        import fcntl
    except ImportError:
        raise Unbuildable("needs files that can be locked as on Linux") from None
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built(cache: Path, layer: Layer = CALLS) -> Path:
    """The folder with the layer and its manifest, made under ``cache`` unless newer than the
    sources. Raises Unbuildable."""
    folder, shared = cache / layer.sources.name, cache / CALLS.sources.name
    folder.mkdir(parents=True, exist_ok=True)
    shared.mkdir(parents=True, exist_ok=True)
    library = folder / layer.library
    with locked(shared):
        newest = max(path.stat().st_mtime for path in layer.sources.iterdir())
        if not library.exists() or library.stat().st_mtime < newest:
            _compile(layer, library, headers(shared))
        manifest, text = folder / f"{layer.name}.json", json.dumps(_manifest(layer))
        if not manifest.exists() or manifest.read_text() != text:
            manifest.write_text(text)
    return folder


def environment(layer: Path, log: Path, texts: Path | None = None) -> dict[str, str]:
    """Variables of a process whose calls go to ``log``, what its compiler read and wrote to the
    folder ``texts``."""
    found = {"VK_LAYER_PATH": str(layer), "VK_INSTANCE_LAYERS": CALLS.name, LOG: str(log)}
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


def _compile(layer: Layer, library: Path, include: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise Unbuildable("no C compiler (cc, gcc, clang)")
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{include}"]
    sources = [str(path) for path in sorted(layer.sources.glob("*.c"))]
    done = _run([compiler, *flags, "-o", str(library), *sources, "-lpthread"], library.parent)
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[:1] or ["no message"]
        raise Unbuildable(f"{compiler} does not build the layer: {last[0]}")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, text=True, check=False, **streams)


def _manifest(layer: Layer) -> dict[str, object]:
    about = {
        "name": layer.name,
        "type": "GLOBAL",
        "library_path": f"./{layer.library}",  # beside the manifest, wherever the cache is
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": layer.description,
    }
    return {"file_format_version": "1.1.2", "layer": about}
