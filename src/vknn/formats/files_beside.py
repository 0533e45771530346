"""Files beside a model that hold its tensors, mapped into memory.

A location is a path below the model's folder. What would leave it, through "..", an absolute path
or a symbolic link, is refused, and so is what is no ordinary file.
"""

from __future__ import annotations

import mmap
import stat
from pathlib import Path

from vknn.formats.in_memory import was_in_memory

#: Characters of a location that errors show.
_LONGEST = 80


class BadLocation(ValueError):
    """A location that names no file beside the model which can be read; what it says follows the
    name of a tensor."""


class FilesBeside:
    """The files beside ``model`` (None: a model in memory), each mapped once."""

    def __init__(self, model: Path | None) -> None:
        self._model = model
        self._files: dict[Path, memoryview] = {}

    def __getitem__(self, path: Path) -> memoryview:
        """The bytes of a file that has been mapped."""
        return self._files[path]

    def mapped(self, location: str) -> Path:
        """The file at ``location``, mapped. Raises BadLocation."""
        path = self._path(location)
        if path not in self._files:
            self._files[path] = _mapped(path, location)
        return path

    def _path(self, location: str) -> Path:
        if not location or "\0" in location:
            raise BadLocation("its external data have no location")
        if self._model is None or was_in_memory(self._model):
            raise BadLocation(
                "has external data, which a model in memory cannot have: open the model by its "
                "path, or save it as one file"
            )
        said = _said(location)
        if Path(location).is_absolute() or location.startswith(("/", "\\")) or location[1:2] == ":":
            raise BadLocation(f"the location {said} of its external data is absolute")
        try:
            folder = self._model.parent.resolve()
            path = (folder / location).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise BadLocation(f"the location {said} of its external data: {error}") from None
        if not path.is_relative_to(folder):
            raise BadLocation(
                f"the location {said} of its external data leads out of the model's folder; "
                "copy the file there"
            )
        return path


def _mapped(path: Path, location: str) -> memoryview:
    try:
        kind = path.stat()
        if stat.S_ISREG(kind.st_mode):  # to open a pipe would wait for who writes to it
            with path.open("rb") as file:
                empty = kind.st_size == 0  # which cannot be mapped
                data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return memoryview(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadLocation(
            f"its external data {_said(location)} cannot be read: {reason} (they have to lie "
            "beside the model, under this name)"
        ) from None
    raise BadLocation(f"its external data {_said(location)} are no ordinary file")


def _said(location: str) -> str:
    """A location as errors have it: a file may state one of any length."""
    return repr(location if len(location) <= _LONGEST else f"{location[:_LONGEST]}...")
