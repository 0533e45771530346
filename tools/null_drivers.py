"""Drivers of GPUs that are not here: Mesa of Debian sid with its drm-shims, in a folder of its own.
Intel's is an older one, see intel_shim.py.

A drm-shim answers the kernel's calls and computes nothing, so that a driver's compiler, limits and
memory types are those of the real GPU and results are not. Packages are downloaded by apt and
unpacked under .cache/null_devices; nothing of the system is touched and no root is needed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import intel_shim
import prepare
from debian import Archive, Unavailable

FOLDER = prepare.CACHE / "null_devices"
LIBRARIES = FOLDER / "root" / "usr" / "lib" / "x86_64-linux-gnu"
PACKAGES = ("mesa-vulkan-drivers", "mesa-drm-shim", "libvulkan1", "vulkan-validationlayers")
#: Bumped when what lies in the folder changes its meaning.
VERSION = 1

#: Device -> driver (its manifest's name), shim, variable that picks the GPU, its value.
DEVICES: dict[str, tuple[str, str, str, str]] = {
    **{
        name: ("radeon", "amdgpu", "AMDGPU_GPU_ID", name)
        for name in (
            *("polaris10", "polaris12", "vega10", "vega20", "raven", "raven2", "renoir"),
            *("vangogh", "navi10", "navi21", "navi31", "navi33", "gfx1201"),
        )
    },
    **{
        f"a{number}": ("freedreno", "freedreno", "FD_GPU_ID", number)
        for number in ("630", "660", "730", "740", "750")
    },
    **{
        f"nv{chip}": ("nouveau", "nouveau", "NOUVEAU_CHIPSET", chip)
        for chip in ("120", "164", "172", "192")
    },
    "m1": ("asahi", "asahi", "", ""),
    **{
        name: ("intel", "intel", "INTEL_STUB_GPU_PLATFORM", name)
        for name in ("skl", "icl", "tgl", "adl", "dg2")
    },
}
INTEL = FOLDER / "intel"


class Incomplete(Unavailable):
    """A file of a device's driver is gone, though the drivers were fetched."""


def device_environment(device: str) -> dict[str, str]:
    """Variables that make ``device`` the only one. Raises KeyError for an unknown name.

    One thread at a time: where two threads list folders, the shim's lock leaves EAGAIN in errno,
    and then the loader now and then misses a layer, and Python a module.
    """
    driver, _, variable, value = DEVICES[device]
    found = _environment(driver)
    disabled = [*filter(None, [os.environ.get("VKNN_DISABLE")]), "threads"]
    found["VKNN_DISABLE"] = ",".join(disabled)
    return found | ({variable: value} if variable else {})


def _environment(driver: str) -> dict[str, str]:
    manifest = str(_manifest(driver))
    return {
        "VK_DRIVER_FILES": manifest,
        "VK_ICD_FILENAMES": manifest,
        "VK_LAYER_PATH": str(FOLDER / "layers"),
        "XDG_RUNTIME_DIR": str(FOLDER / "run"),
        "MESA_SHADER_CACHE_DISABLE": "1",
    }


def command(device: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a program of this machine on a null device."""
    return _started(arguments, ["--preload", str(_shim(device))])


def _shim(device: str) -> Path:
    driver, name, _, _ = DEVICES[device]
    folder = INTEL if driver == "intel" else LIBRARIES
    return folder / f"lib{name}_noop_drm_shim.so"


def _started(arguments: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """sid's C library is newer than the system's, so its own loader starts the program."""
    loader = str(FOLDER / "root" / "usr" / "lib64" / "ld-linux-x86-64.so.2")
    path = f"{LIBRARIES}:/usr/lib/x86_64-linux-gnu"
    program = shutil.which(arguments[0]) or arguments[0]
    start = [loader, "--library-path", path, *options, "--argv0", arguments[0]]
    return [*start, program, *arguments[1:]]


def lavapipe(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command that runs a program on sid's llvmpipe, and variables for it.

    That computes, unlike null devices, and has cooperative matrices, which older ones have not.
    Children that the program starts do not find the driver. Raises Unavailable.
    """
    set_up(next(iter(DEVICES)))
    found = _environment("lvp")
    return _started(arguments), found


def set_up(device: str) -> None:
    """Download and unpacking of what ``device`` needs, unless that has been done.

    Raises Unavailable, Incomplete where they are fetched and a file is gone.
    """
    intel = DEVICES[device][0] == "intel"
    if not _is_ready() or (intel and not intel_shim.is_ready(INTEL)):
        _make(intel)
    for path in _files(device):
        if not path.is_file():
            raise Incomplete(f"{device}: {path} is gone: delete {FOLDER}, it is fetched again")


def _files(device: str) -> Iterator[Path]:
    """The files that a device cannot do without."""
    manifest = _manifest(DEVICES[device][0])
    yield from (_shim(device), manifest)
    yield Path(json.loads(manifest.read_text())["ICD"]["library_path"])


def _make(intel: bool) -> None:
    """The folder of all drivers, and Intel's if that is wanted."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes of pytest may want it at the same time
        if not _is_ready():
            _fetch()
            _write_manifests()
            (FOLDER / "run").mkdir(exist_ok=True, mode=0o700)
            _stamp().write_text(json.dumps({"version": VERSION}))
        if intel and not intel_shim.is_ready(INTEL):
            intel_shim.make(INTEL)


def _stamp() -> Path:
    return FOLDER / "ready.json"


def _is_ready() -> bool:
    try:
        return bool(json.loads(_stamp().read_text())["version"] == VERSION)
    except (OSError, ValueError, KeyError):
        return False


def _fetch() -> None:
    """The packages of sid and what they depend on, unpacked under root/."""
    prepare.say(f"fetching drivers of GPUs that are not here into {FOLDER}")
    archive = Archive(FOLDER / "apt", "sid")
    shutil.rmtree(FOLDER / "root", ignore_errors=True)
    archive.unpack(archive.with_dependencies(PACKAGES), FOLDER / "root")


def _write_manifests() -> None:
    """Manifests of drivers and of the validation layer that name the unpacked libraries."""
    share = FOLDER / "root" / "usr" / "share" / "vulkan"
    for source, target in (("icd.d", "icd"), ("explicit_layer.d", "layers")):
        (FOLDER / target).mkdir(exist_ok=True)
        for path in (share / source).glob("*.json"):
            manifest = json.loads(path.read_text())
            for part in ("ICD", "layer"):
                if part in manifest:
                    library = Path(manifest[part]["library_path"]).name
                    manifest[part]["library_path"] = str(LIBRARIES / library)
            (FOLDER / target / path.name).write_text(json.dumps(manifest))
    missing = [d for d in ("radeon", "freedreno", "nouveau", "asahi") if not _manifest(d).is_file()]
    if missing:
        raise Unavailable(f"sid's Mesa has no driver {', '.join(missing)} any more")


def _manifest(driver: str) -> Path:
    if driver == "intel":
        return INTEL / "icd.json"
    return FOLDER / "icd" / f"{driver}_icd.json"
