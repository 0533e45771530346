"""Note of a batch under way on the machine of its worker, for the process that comes after it."""

from __future__ import annotations

from pathlib import Path

from vknn.scale.note_file import NOTE_BYTES, NoteFile


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
        self._file = NoteFile("batch", worker, folder)

    def taken(self) -> tuple[str, str] | None:
        """Device and key that the process before this one noted last; empty ones where it was idle.

        None where there is no note; it is there only once.
        """
        left = self._file.taken()
        if left is None:
            return None
        device, _, key = left.rstrip(b"\0").decode("utf-8", "replace").partition("\n")
        return (device, key) if device and key else ("", "")

    def write(self, device: str, key: str) -> bool:
        """Note of a batch that is begun. Tells whether it could be written."""
        text = f"{device}\n{key}".encode().ljust(NOTE_BYTES, b"\0")
        return len(text) == NOTE_BYTES and self._file.begins_with(text)

    def clear(self) -> None:
        """Note that the batch is done."""
        if self._file.is_open:
            self._file.begins_with(bytes(NOTE_BYTES))

    def close(self) -> None:
        """Removal of the note; may be called twice."""
        self._file.close()
