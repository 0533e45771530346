"""Files that users name: errors that say which file, and files that are replaced as a whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

#: Errors of folders in which no file can be made, though one that is there may be written.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Python's errors inside the block with the name of the file: a full disk gives none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


@contextmanager
def replacing(path: str | os.PathLike[str], *, whole: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` at the end of the block.

    After an error there is what was there before: a full disk takes no model away. What is no plain
    file (a device, a pipe) is written to itself, and so is a file in a folder where this user may
    make none; with ``whole`` that is refused.
    """
    target = os.path.realpath(path)  # a link stays one
    with named(path):
        temporary = None if _is_special(path) else _beside(target, os.fspath(path), whole)
        if temporary is None:
            with open(path, "wb") as file:
                yield file
            return
        try:
            with open(temporary, "wb") as file:
                yield file
            if os.path.exists(target):
                shutil.copymode(target, temporary)
            _take_place(temporary, target, os.fspath(path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _take_place(temporary: str, target: str, named_as: str) -> None:
    """The temporary file as ``target``; an error has the name that the user gave.

    Windows denies it while a program has the old file mapped: a session of a model, for one.
    """
    try:
        os.replace(temporary, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, named_as) from error


def temporary_folder(prefix: str = "vknn-") -> tempfile.TemporaryDirectory[str]:
    """A folder that goes away with its block, without an error where a file in it is in use.

    Windows removes no file that is mapped into memory, as weights are until the last array is gone.
    """
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def is_endless(path: str | os.PathLike[str]) -> bool:
    """Whether reading a file may wait for another process, or find no end: a pipe or a device."""
    with contextlib.suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to something that is no plain file.

    Asked of the path itself: those under /dev/fd are links to names that no pipe has.
    """
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _beside(target: str, path: str, whole: bool) -> str | None:
    """A new file beside ``target``; None where the user may make none and it need not be whole."""
    temporary = os.path.join(os.path.dirname(target), f".vknn-{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        if error.errno in _CLOSED and not whole:
            return None
        error.filename = path  # the name that the user knows
        raise
    return temporary
