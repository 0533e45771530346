"""Note of batches under way on the machine of their worker, for the process that comes after it."""

from __future__ import annotations

import threading
from pathlib import Path

from vknn.scale.note_file import NOTE_BYTES, NoteFile


class AttemptNote:
    """Note of what a worker's process has under way, which outlives that process.

    The keeper learns of batches by messages, and a process can end before they have left it. The
    note is there at once: it is a file in the machine's folder for temporary files, and the process
    that Ray begins in the place of one that ended finds it. (Where that is on another machine, it
    finds none, and the keeper knows what messages told.)

    Args:
        worker: Name of the worker, which stays the same when Ray begins its process anew.
        folder: Where the note lies; None: the machine's folder for temporary files.
    """

    def __init__(self, worker: str, folder: Path | None = None) -> None:
        self._file = NoteFile("batch", worker, folder)
        self._lock = threading.Lock()
        self._keys: list[str] = []

    def taken(self) -> list[str] | None:
        """Keys that the process before this one had noted when it ended; none where it was idle.

        None where there is no note; it is there only once.
        """
        left = self._file.taken()
        if left is None:
            return None
        return left.rstrip(b"\0").decode("utf-8", "replace").splitlines()

    def begin(self, key: str) -> bool:
        """Note of a batch that is begun: it is to be read. Tells whether it could be written."""
        with self._lock:
            self._keys.append(key)
            return self._write()

    def end(self, key: str) -> None:
        """Note that a batch is done: the table of its answers is made."""
        with self._lock:
            if key in self._keys:
                self._keys.remove(key)
                if self._file.is_open:
                    self._write()

    def close(self) -> None:
        """Removal of the note; may be called twice."""
        self._file.close()

    def _write(self) -> bool:
        text = "\n".join(self._keys).encode().ljust(NOTE_BYTES, b"\0")
        return len(text) == NOTE_BYTES and self._file.begins_with(text)
