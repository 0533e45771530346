"""Note of how a worker's process ended, for the process that comes after it on its machine."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
from pathlib import Path

from vknn.scale.note_file import NoteFile

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
        self._file = NoteFile("exit", worker, folder)
        self.last = _ending(self._file.taken())
        with contextlib.suppress(OSError):
            faulthandler.enable(self._file.opened(), all_threads=False)

    def say(self, text: str) -> None:
        """Note of why the process is about to end itself."""
        if self._file.is_open:
            with contextlib.suppress(OSError):
                os.write(self._file.opened(), f"{text}\n".encode())

    def close(self) -> None:
        """Removal of the note; may be called twice."""
        if not self._file.is_open:
            return
        faulthandler.disable()
        with contextlib.suppress(Exception):  # where stderr is no file
            faulthandler.enable(sys.stderr, all_threads=False)
        self._file.close()


def _ending(left: bytes | None) -> str:
    """How a process ended, by the note that it left; the first line says which signal it was."""
    lines = (left or b"").decode("utf-8", "replace").splitlines()
    if lines:
        return lines[0].removeprefix("Fatal Python error: ").strip()
    return "" if left is None else KILLED
