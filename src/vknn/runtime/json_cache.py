"""JSON files in the cache directory: read with suspicion, replaced in one step."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from vknn.errors import VknnError
from vknn.runtime import trusted_file
from vknn.runtime.cachefile import replace

MAX_BYTES = 64 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class JsonCache(Generic[T]):
    """A kind of cache file.

    Attributes:
        format: What the file says that it is.
        version: Its version; files of others are not read.
        content: Name of its member with the content.
        parse: From the content as JSON gives it; raises ValueError for what makes no sense.
        writer: Says what writes a new one, in the warning about a damaged file.
    """

    format: str
    version: int
    content: str
    parse: Callable[[Any], T]
    writer: str

    def load(self, path: Path) -> T | None:
        """The content; None where there is no file, and with a warning where it is damaged."""
        try:
            return self._parse(json.loads(trusted_file.read(path, MAX_BYTES)))
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            warnings.warn(
                f"{path} is damaged and is ignored ({error}); {self.writer}",
                RuntimeWarning,
                stacklevel=3,
            )
            return None

    def store(self, path: Path, content: Any) -> None:
        """Replacement of the file. Raises VknnError where it cannot be written."""
        document = {"format": self.format, "version": self.version, self.content: content}
        try:
            replace(path, json.dumps(document, indent=1, allow_nan=False).encode())
        except OSError as error:
            raise VknnError(
                f"{path} cannot be kept: {error}; VKNN_CACHE_DIR names another directory"
            ) from error

    def _parse(self, document: Any) -> T:
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise ValueError(f"it is no file of {self.format}")
        if document.get("version") != self.version:
            raise ValueError(f"it has version {document.get('version')!r}, not {self.version}")
        return self.parse(document.get(self.content))
