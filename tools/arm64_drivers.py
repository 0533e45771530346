#!/usr/bin/env python3
"""llvmpipe for 64-bit ARM, run by qemu: programs for another processor compute here.

    python tools/arm64_drivers.py setup              less than a minute, 60 MB from Debian's mirror
    python tools/arm64_drivers.py run PROGRAM ...    one for aarch64 Linux, on that llvmpipe

Packages of this machine's own release are downloaded by apt and unpacked under .cache/arm64;
nothing of the system is touched and no root is needed. qemu is Debian's qemu-user-static.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence

import prepare
from debian import Archive, Unavailable

FOLDER = prepare.CACHE / "arm64"
ROOT = FOLDER / "root"
PACKAGES = ("libvulkan1", "mesa-vulkan-drivers")
#: Bumped when what lies in the folder changes its meaning.
VERSION = 1
_DRIVER = ROOT / "usr" / "lib" / "aarch64-linux-gnu" / "libvulkan_lvp.so"
_MANIFEST = FOLDER / "lvp_icd.json"
_STAMP = FOLDER / "ready.json"


def environment() -> dict[str, str]:
    """Variables that make the ARM llvmpipe the only device."""
    return {
        "VK_DRIVER_FILES": str(_MANIFEST),
        "VK_ICD_FILENAMES": str(_MANIFEST),
        "MESA_SHADER_CACHE_DISABLE": "1",
    }


def command(arguments: Sequence[str]) -> list[str]:
    """The command that runs a program for aarch64 Linux here. Raises Unavailable without qemu."""
    for name in ("qemu-aarch64-static", "qemu-aarch64"):
        if (found := shutil.which(name)) is not None:
            return [found, "-L", str(ROOT), *arguments]
    raise Unavailable("there is no qemu-aarch64 (Debian: qemu-user-static)")


def set_up() -> None:
    """Download and unpacking of loader and driver, where not yet done. Raises Unavailable."""
    command([])
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes of pytest may want it at the same time
        if not _is_ready():
            _fetch()
        _write_manifest()


def _is_ready() -> bool:
    try:
        return bool(json.loads(_STAMP.read_text())["version"] == VERSION) and _DRIVER.is_file()
    except (OSError, ValueError, KeyError):
        return False


def _fetch() -> None:
    prepare.say(f"fetching llvmpipe for 64-bit ARM into {FOLDER}")
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    archive = Archive(FOLDER / "apt", suite, architecture="arm64")
    shutil.rmtree(ROOT, ignore_errors=True)
    archive.unpack(archive.with_dependencies(PACKAGES), ROOT)
    if not _DRIVER.is_file():
        raise Unavailable(f"Debian {suite} has no llvmpipe for arm64")
    _STAMP.write_text(json.dumps({"version": VERSION}))


def _write_manifest() -> None:
    """The driver's manifest with its path from here: checkouts share the folder, or move it."""
    (manifest,) = (ROOT / "usr" / "share" / "vulkan" / "icd.d").glob("lvp_icd*.json")
    contents = json.loads(manifest.read_text())
    contents["ICD"]["library_path"] = f"./{_DRIVER.relative_to(FOLDER)}"
    text = json.dumps(contents)
    if not _MANIFEST.is_file() or _MANIFEST.read_text() != text:
        _MANIFEST.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("setup", help="fetch the driver")
    start = actions.add_parser("run", help="run a program")
    start.add_argument("program", nargs=argparse.REMAINDER, help="a program and its arguments")
    options = parser.parse_args()
    if options.action == "run" and not options.program:
        parser.error("give a program to run")
    try:
        set_up()
        if options.action == "run":
            started = command(options.program)
            os.execve(started[0], started, {**os.environ, **environment()})
    except Unavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
