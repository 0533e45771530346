"""Errors of files that say which file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Python's errors inside the block with the name of the file: a full disk gives none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise
