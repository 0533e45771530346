"""Wine for tests of the runner on Windows: a prefix, a display, programs wrapped as scripts."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Debian's wine64 alone: /usr/bin/wine asks for one of 32 bits on each call.
LOADERS = ("/usr/lib/wine/wine64", "wine64", "wine")
SERVERS = ("/usr/lib/wine/wineserver64", "/usr/lib/wine/wineserver", "wineserver")
NEEDS = "(Debian: apt-get install wine64 xvfb)"


@dataclass(frozen=True)
class Wine:
    """A prefix of wine, on a display: without one wine has a Vulkan of 1.0."""

    loader: str
    folder: Path
    display: str

    @property
    def system32(self) -> Path:
        return self.folder / "prefix/drive_c/windows/system32"

    def environment(self, debug: str = "-all") -> dict[str, str]:
        """Variables of wine; nothing is downloaded, and no menu of the machine changed."""
        return {
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=",
            "WINEDEBUG": debug,
            "HOME": str(self.folder),
            "DISPLAY": self.display,
            "LC_ALL": "C.UTF-8",  # of arguments, and of names of files
        }

    def script(self, program: Path, name: str, debug: str = "-all", **variables: str) -> Path:
        """A program of this system that runs one of Windows in the prefix."""
        path = self.folder / name
        given = {**self.environment(debug), **variables}
        lines = [f"export {key}={shlex.quote(text)}\n" for key, text in given.items()]
        command = f"exec {shlex.quote(self.loader)} {shlex.quote(str(program))} " + '"$@"\n'
        path.write_text("#!/bin/sh\n" + "".join(lines) + command)
        path.chmod(0o755)
        return path


def found(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


def windows(display: str) -> int:
    """How many windows a display shows at its top (X11 protocol: connection, QueryTree)."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
        connection.settimeout(60)
        connection.connect(f"/tmp/.X11-unix/X{display}")
        connection.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, 0, 0))
        accepted, words = struct.unpack("<BxxxxxH", answers.read(8))
        assert accepted == 1
        told = answers.read(4 * words)
        vendor, formats = struct.unpack_from("<H", told, 16)[0], told[21]
        (root,) = struct.unpack_from("<I", told, 32 + (vendor + 3) // 4 * 4 + 8 * formats)
        connection.sendall(struct.pack("<BxHI", 15, 2, root))
        (count,) = struct.unpack("<16xH14x", answers.read(32))
        return int(count)


def wait_for_window(display: str, seconds: float = 240) -> None:
    """The desktop is ready with the first window. A program that has to start it, on a busy
    machine, waits for it for a while and then goes on without: its Vulkan is of 1.0."""
    end = time.monotonic() + seconds
    while not windows(display):
        assert time.monotonic() < end, f"wine has shown no window within {seconds} s"
        time.sleep(0.2)


@contextmanager
def wine_in(folder: Path) -> Iterator[Wine]:
    """Wine with a prefix in a folder; skips where it, or a display for it, is not installed."""
    loader, server = found(LOADERS), found(SERVERS)
    if loader is None or server is None:
        pytest.skip(f"needs wine {NEEDS}")
    if shutil.which("Xvfb") is None:
        pytest.skip(f"needs Xvfb {NEEDS}")
    reading, writing = os.pipe()
    screen = ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp", "-screen", "0", "640x480x24"]
    with subprocess.Popen(screen, pass_fds=[writing], stderr=subprocess.DEVNULL) as xvfb:
        os.close(writing)
        with os.fdopen(reading) as answer:
            number = answer.readline().strip()
        assert number, "Xvfb has no display"
        wine = Wine(loader, folder, f":{number}")
        quiet: dict[str, Any] = {
            "env": {**os.environ, **wine.environment()},
            "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
            "check": False, "timeout": 300,
        }  # fmt: skip
        try:
            subprocess.run([loader, "wineboot", "-i"], **quiet)
            # A window keeps what wine starts beside the first program, without a pipe of ours: else
            # each program starts it anew, and who reads its pipe waits 3 s for that to end.
            window = {key: quiet[key] for key in ("env", "stdin", "stdout", "stderr")}
            with subprocess.Popen([loader, "notepad"], **window):
                try:
                    wait_for_window(number)
                    yield wine
                finally:
                    subprocess.run([server, "-k"], **quiet)  # this prefix's
        finally:
            xvfb.terminate()
