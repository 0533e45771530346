"""File in which a worker's process leaves word for the process that comes after it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path

#: Bytes of a note that are read.
NOTE_BYTES = 1024
#: Seconds after which a note is nobody's: processes that are killed at a job's end leave theirs.
_STALE = 7 * 24 * 3600.0
#: Of files that are opened: no links where the system tells them, and bytes as they are.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class NoteFile:
    """File of a worker in its machine's folder for temporary files, made when it is first opened.

    Args:
        kind: What the note is of, a part of the file's name.
        worker: Name of the worker, which stays the same when Ray begins its process anew.
        folder: Where the file lies; None: the machine's folder for temporary files.
    """

    def __init__(self, kind: str, worker: str, folder: Path | None = None) -> None:
        safe = re.sub(r"[^0-9A-Za-z_-]", "_", worker)
        folder = folder or Path(tempfile.gettempdir())
        self._path = folder / f"vknn-{kind}-{safe}"
        self._file = -1
        _remove_stale(folder, f"vknn-{kind}-")

    @property
    def is_open(self) -> bool:
        """Whether this process has opened the file."""
        return self._file >= 0

    def opened(self) -> int:
        """Descriptor of the file, for writing. Raises OSError where it cannot be made."""
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
            self._file = os.open(self._path, flags, 0o600)
        return self._file

    def begins_with(self, data: bytes) -> bool:
        """Writing of the file's begin. Tells whether all could be written."""
        try:
            file = self.opened()
            os.lseek(file, 0, os.SEEK_SET)  # Windows has no pwrite
            return os.write(file, data) == len(data)
        except OSError:
            return False

    def taken(self) -> bytes | None:
        """Begin of what the process before this one left, only once; None where it left nothing."""
        try:
            file = os.open(self._path, os.O_RDONLY | _PLAIN)
        except OSError:
            return None
        try:
            left = os.read(file, NOTE_BYTES) if _is_own(os.fstat(file)) else None
        finally:
            os.close(file)
        _remove(self._path)
        return left

    def close(self) -> None:
        """Removal of the file, if this process opened it; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            _remove(self._path)


def _is_own(found: os.stat_result) -> bool:
    """Whether a file is this user's; on Windows the folder is, which nobody else may write to."""
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _remove_stale(folder: Path, begin: str) -> None:
    oldest = time.time() - _STALE
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(begin):
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if found.st_mtime < oldest and _is_own(found):
                        os.unlink(entry.path)
