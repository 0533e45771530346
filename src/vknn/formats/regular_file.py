"""Check that a model's file is one: opening a pipe would wait for a writer, for ever."""

from __future__ import annotations

from pathlib import Path

from vknn.errors import ModelFormatError
from vknn.named_files import is_endless


def refuse_special(path: Path) -> None:
    """Check: ModelFormatError for pipes, sockets and devices; what is not there passes."""
    if is_endless(path):
        raise ModelFormatError(
            "this is a pipe or a device; vknn maps and seeks in its files: save it to one first",
            file=str(path),
        )
