"""External data: files beside the model that hold tensors (``vknn.formats.files_beside``)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from vknn.errors import ModelFormatError
from vknn.formats.files_beside import BadLocation, FilesBeside

_MAX_DIGITS = 19


class ExternalData:
    """The files with external data of one model, each mapped once."""

    def __init__(self, model: Path | None) -> None:
        self._model = model
        self._files = FilesBeside(model)
        self._ends: dict[Path, int] = {}

    def part(self, entries: Mapping[str, str], size: int, what: str) -> memoryview:
        """The ``size`` bytes of a tensor that errors call ``what``.

        ``entries``: location, offset and length as the file states them. Raises ModelFormatError.
        """
        location = entries.get("location", "")
        try:
            path = self._files.mapped(location)
        except BadLocation as problem:
            self._fail(what, str(problem))
        data = self._files[path]
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

    def _fail(self, what: str, message: str) -> NoReturn:
        raise ModelFormatError(f"{what}: {message}", file=str(self._model or "")) from None
