"""External data: files beside the model that hold tensors, mapped into memory.

A location is a path below the model's folder. What would leave it, through "..", an absolute path
or a symbolic link, is refused, and so is what is no ordinary file.
"""

from __future__ import annotations

import mmap
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from vknn.errors import ModelFormatError
from vknn.formats.in_memory import was_in_memory

_MAX_DIGITS = 19


class ExternalData:
    """The files with external data of one model, each mapped once."""

    def __init__(self, model: Path | None) -> None:
        self._model = model
        self._files: dict[Path, memoryview] = {}
        self._ends: dict[Path, int] = {}

    def part(self, entries: Mapping[str, str], size: int, what: str) -> memoryview:
        """The ``size`` bytes of a tensor that errors call ``what``.

        ``entries``: location, offset and length as the file states them. Raises ModelFormatError.
        """
        location = entries.get("location", "")
        path = self._path(location, what)
        data = self._mapped(path, location, what)
        offset = self._number(entries, "offset", 0, what)
        length = self._number(entries, "length", size, what)
        if length != size:
            self._fail(what, f"needs {size} bytes, the file states the length {length}")
        if offset + length > len(data):
            self._fail(
                what,
                f"{length} bytes at {offset} do not lie inside {location!r}, which has {len(data)} "
                "(it is cut off, or that of another model)",
            )
        self._ends[path] = max(self._ends.get(path, 0), offset + length)
        return data[offset : offset + length]

    def check_end(self) -> None:
        """A warning where bytes are left behind the last tensor: they may be another model's."""
        for path, end in self._ends.items():
            size = len(self._files[path])
            if size > end:
                warnings.warn(
                    f"{path}: {size - end} of {size} bytes are left over behind the last tensor "
                    f"that {self._model} names: they may be the data of another model",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _number(self, entries: Mapping[str, str], key: str, default: int, what: str) -> int:
        text = entries.get(key)
        if text is None or text == "":
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            self._fail(what, f"its external data have {text[:40]!r} as {key}")
        return int(text)

    def _mapped(self, path: Path, location: str, what: str) -> memoryview:
        if path not in self._files:
            try:
                kind = path.stat().st_mode
                if not stat.S_ISREG(kind):
                    self._fail(what, f"its external data {location!r} are no ordinary file")
                with path.open("rb") as file:
                    empty = path.stat().st_size == 0  # which cannot be mapped
                    data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ModelFormatError:  # it is a ValueError, too
                raise
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                self._fail(
                    what,
                    f"its external data {location!r} cannot be read: {reason} (they have to lie "
                    "beside the model, under this name)",
                )
            self._files[path] = memoryview(data)
        return self._files[path]

    def _path(self, location: str, what: str) -> Path:
        if not location or "\0" in location:
            self._fail(what, "its external data have no location")
        if self._model is None or was_in_memory(self._model):
            self._fail(
                what,
                "has external data, which a model in memory cannot have: open the model by its "
                "path, or save it as one file",
            )
        if Path(location).is_absolute() or location.startswith(("/", "\\")) or location[1:2] == ":":
            self._fail(what, f"the location {location!r} of its external data is absolute")
        try:
            folder = self._model.parent.resolve()
            path = (folder / location).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            self._fail(what, f"the location {location[:80]!r} of its external data: {error}")
        if not path.is_relative_to(folder):
            self._fail(
                what,
                f"the location {location!r} of its external data leads out of the model's folder; "
                "copy the file there",
            )
        return path

    def _fail(self, what: str, message: str) -> NoReturn:
        raise ModelFormatError(f"{what}: {message}", file=str(self._model or "")) from None
