"""Models that are no files: bytes, or what a file that is open for reading holds.

Readers map weights from files, so what is in memory is written to a folder that lasts as long as
whoever opened it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from vknn.errors import ModelFormatError, VknnError
from vknn.named_files import temporary_folder

#: A path, the contents of a file, or an open file.
Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]


def is_in_memory(source: object) -> bool:
    """Whether it is contents, or an open file, and not a path."""
    return isinstance(source, (bytes, bytearray, memoryview)) or hasattr(source, "read")


#: What is in memory, in the words of messages.
MODEL, WEIGHTS = "a model in memory", "weights in memory"
#: The files that were written of what is in memory, and these words.
_written: dict[str, str] = {}


def shown_file(path: os.PathLike[str]) -> str:
    """A file as messages call it: by its path, or that it is in memory."""
    return _written.get(str(path), str(path))


def was_in_memory(path: os.PathLike[str]) -> bool:
    """Whether a file was written of what is in memory."""
    return str(path) in _written


class WrittenSources:
    """A model and its weights as paths, those in memory in a folder of their own."""

    def __init__(self, model: Any, weights: Any) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.model, self.weights = self._paths([(model, "model"), (weights, "weights")])

    @property
    def in_memory(self) -> bool:
        """Whether anything was."""
        return self._folder is not None

    def of_memory(self, error: VknnError) -> VknnError:
        """The error with what is in memory called so, and not by the files that nobody wrote."""
        if self._folder is None:
            return error
        folder = Path(self._folder.name)
        for path, name in ((folder / "weights", WEIGHTS), (folder / "model.bin", MODEL),
                           (folder / "model", MODEL)):  # fmt: skip
            error.args = tuple(str(part).replace(str(path), name) for part in error.args)
            if error.file == str(path):
                error.file = name
        return error

    def close(self) -> None:
        """Removal of the folder; may be called twice."""
        if self._folder is not None:
            for name in ("model", "weights"):
                _written.pop(str(Path(self._folder.name) / name), None)
            self._folder.cleanup()

    def _paths(self, sources: Sequence[tuple[Any, str]]) -> list[Any]:
        contents = [_contents(source) if is_in_memory(source) else None for source, _ in sources]
        if not any(data is not None for data in contents):
            return [source for source, _ in sources]
        self._folder = temporary_folder()
        found: list[Any] = []
        for (source, name), data in zip(sources, contents, strict=True):
            if data is None:
                found.append(source)
                continue
            path = Path(self._folder.name) / name
            _written[str(path)] = MODEL if name == "model" else WEIGHTS
            try:
                path.write_bytes(data if _is_whole(data) else bytes(data))
            except OSError as error:
                raise ModelFormatError(
                    f"a model in memory cannot be written to a temporary file: {error.strerror}",
                    file=str(path),
                ) from error
            found.append(path)
        return found


def _is_whole(data: bytes | bytearray | memoryview) -> bool:
    """Whether the bytes lie one behind the other, as files take them."""
    return not isinstance(data, memoryview) or data.c_contiguous


def _contents(source: Any) -> bytes | bytearray | memoryview:
    if isinstance(source, memoryview):
        return source.tobytes()  # it may have gaps
    if not hasattr(source, "read"):
        return source  # type: ignore[no-any-return]
    try:
        data = source.read()
    except (OSError, ValueError) as error:  # closed, or not for reading
        raise ModelFormatError(f"an open file cannot be read: {error}") from error
    if isinstance(data, str):
        raise ModelFormatError("the file is open as text; open it in binary, with mode 'rb'")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ModelFormatError(f"read() of a {type(source).__name__} gives no bytes")
    return data
