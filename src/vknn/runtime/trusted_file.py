"""Cache files, read where their owner can be trusted.

What a driver or vknn once wrote comes back as code for the device: nobody else may have written it.
"""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

#: A pipe without a writer must not hold up whoever opens it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_warned: set[Path] = set()


def read(path: Path, most: int) -> bytes:
    """The file's bytes, at most ``most``.

    Raises OSError where there is no such file, or, with one warning, none to be trusted, and
    ValueError for one that is larger.
    """
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        about = os.fstat(file.fileno())
        reason = untrusted(about)
        if reason is not None:
            if path not in _warned:
                _warned.add(path)
                text = f"{path} {reason} and is ignored; delete it, or set VKNN_CACHE_DIR"
                warnings.warn(text, RuntimeWarning, stacklevel=4)
            raise OSError(f"{path} {reason}")
        if about.st_size > most:
            raise ValueError(f"it has more than {most} bytes")
        return file.read()


def untrusted(about: os.stat_result) -> str | None:
    """Reason why a file cannot be trusted; None where it can."""
    if not stat.S_ISREG(about.st_mode):
        return "is no regular file"
    if hasattr(os, "geteuid"):
        if about.st_uid not in (0, os.geteuid()):
            return "belongs to another user"
        if about.st_mode & stat.S_IWOTH:
            return "can be written by everybody"
    return None
