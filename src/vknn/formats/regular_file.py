"""Check that a model's file is one: opening a pipe would wait for a writer, for ever."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

from vknn.errors import ModelFormatError


def refuse_special(path: Path) -> None:
    """Check: ModelFormatError for pipes, sockets and devices; what is not there passes."""
    mode = stat.S_IFREG
    with contextlib.suppress(OSError, ValueError):
        mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelFormatError(
            "this is a pipe or a device; vknn maps and seeks in its files: save it to one first",
            file=str(path),
        )
