"""Wine for tests of the runner on Windows: a prefix, a display, programs wrapped as scripts."""

from __future__ import annotations

import os
import shlex
import shutil
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
                    time.sleep(5)
                    yield wine
                finally:
                    subprocess.run([server, "-k"], **quiet)  # this prefix's
        finally:
            xvfb.terminate()
