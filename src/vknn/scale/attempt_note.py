"""Note of a batch under way on the machine of its worker, for the process that comes after it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

#: Bytes of a note: a device's name and a batch's key.
_BYTES = 1024


class AttemptNote:
    """Note of what a worker's process computes, which outlives that process.

    The keeper learns of batches by messages, and a process can end before they have left it. The
    note is there at once: it is a file in the machine's folder for temporary files, and the process
    that Ray begins in the place of one that ended finds it. (Where that is on another machine, it
    finds none, and the keeper knows what messages told.)

    Args:
        worker: Name of the worker, which stays the same when Ray begins its process anew.
        folder: Where the note lies; None: the machine's folder for temporary files.
    """

    def __init__(self, worker: str, folder: Path | None = None) -> None:
        safe = re.sub(r"[^0-9A-Za-z_-]", "_", worker)
        self._path = (folder or Path(tempfile.gettempdir())) / f"vknn-batch-{safe}"
        self._file = -1

    def taken(self) -> tuple[str, str] | None:
        """Device and key that the process before this one noted last; empty ones where it was idle.

        None where there is no note; it is there only once.
        """
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            is_own = os.fstat(file).st_uid == os.getuid()
            text = os.read(file, _BYTES).rstrip(b"\0") if is_own else None
        finally:
            os.close(file)
        self._remove()
        if text is None:
            return None
        device, _, key = text.decode("utf-8", "replace").partition("\n")
        return (device, key) if device and key else ("", "")

    def write(self, device: str, key: str) -> bool:
        """Note of a batch that is begun. Tells whether it could be written."""
        text = f"{device}\n{key}".encode().ljust(_BYTES, b"\0")
        try:
            if self._file < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                self._file = os.open(self._path, flags, 0o600)
            return len(text) == _BYTES == os.pwrite(self._file, text, 0)
        except OSError:
            return False

    def clear(self) -> None:
        """Note that the batch is done."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._file, bytes(_BYTES), 0)

    def close(self) -> None:
        """Removal of the note; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
