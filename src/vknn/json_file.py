"""Small text and JSON files that users write: read whole, never more than so many bytes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vknn.errors import VknnError, naming

#: Such files are a few hundred bytes, or lines; a larger one is something else.
MAX_BYTES = 1 << 20


def read_json(path: Path, most: int = MAX_BYTES) -> Any:
    """The document of a JSON file. Raises VknnError for one that is none or is too large."""
    text = read_text(path, most)
    with naming(str(path)):
        try:
            return json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise VknnError(f"{path} is no JSON: {error}") from error


def beginning(path: str | os.PathLike[str], most: int = 64) -> bytes:
    """The first bytes of a regular file; none of what is no file: whoever reads it says so."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(most)


def read_text(path: Path, most: int) -> str:
    """The text of a regular file of at most ``most`` bytes. Raises VknnError."""
    with naming(str(path)):
        try:
            if not os.path.isfile(path):  # a pipe would wait for a writer, for ever
                raise VknnError(
                    f"{path}: {'this is no file' if os.path.exists(path) else 'no such file'}"
                )
            with path.open("rb") as file:
                data = file.read(most + 1)
        except (OSError, ValueError) as error:
            raise VknnError(f"{path} cannot be read: {error}") from error
        if len(data) > most:
            raise VknnError(f"{path} has more than {most} bytes")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise VknnError(f"{path} is no text in UTF-8: {error}") from error


def _once(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    """An object whose keys are each there once."""
    counts = Counter(key for key, _ in pairs)
    twice = next((key for key, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"there are two keys {twice!r} in an object")
    return dict(pairs)
