"""Note of how a worker's process ended, for the process that comes after it on its machine."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
import tempfile
from pathlib import Path

#: Bytes of a note that are read: the first line says which signal it was.
_BYTES = 1024
#: What a process leaves behind whose end nobody noticed, itself included.
KILLED = "killed, such as for want of memory"


class ExitNote:
    """Note that Python's fault handler writes when a signal ends the process.

    Ray begins another process in the place of one that ended, and does not say how it ended.

    Args:
        worker: Name of the worker, which stays the same when Ray begins its process anew.
        folder: Where the note lies; None: the machine's folder for temporary files.

    Attributes:
        last: How the process before this one ended; empty where there was none on this machine.
    """

    def __init__(self, worker: str, folder: Path | None = None) -> None:
        safe = re.sub(r"[^0-9A-Za-z_-]", "_", worker)
        self._path = (folder or Path(tempfile.gettempdir())) / f"vknn-exit-{safe}"
        self._file = -1
        self.last = self._taken()
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, 0o600)
            faulthandler.enable(self._file, all_threads=False)

    def say(self, text: str) -> None:
        """Note of why the process is about to end itself."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.write(self._file, f"{text}\n".encode())

    def close(self) -> None:
        """Removal of the note; may be called twice."""
        if self._file < 0:
            return
        faulthandler.disable()
        with contextlib.suppress(Exception):  # where stderr is no file
            faulthandler.enable(sys.stderr, all_threads=False)
        os.close(self._file)
        self._file = -1
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _taken(self) -> str:
        """What the process before this one left; it is there only once."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return ""
        try:
            is_own = os.fstat(file).st_uid == os.getuid()
            text = os.read(file, _BYTES).decode("utf-8", "replace") if is_own else ""
        finally:
            os.close(file)
        with contextlib.suppress(OSError):
            self._path.unlink()
        lines = text.splitlines()
        return lines[0].removeprefix("Fatal Python error: ").strip() if lines else KILLED
