"""Errors as lines on stderr, and exit codes."""

from __future__ import annotations

import errno
import sys

FAILED, USER_ERROR, INTERNAL_ERROR, STOPPED = 1, 2, 3, 130
#: Numbers of errors of those who write to a full disk.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def complain(error: BaseException) -> None:
    """An error as a line to stderr, where the command goes on."""
    print(f"vknn: error: {error_text(error)}", file=sys.stderr, flush=True)


def error_text(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if name is None and error.errno in _FULL:
            name = "standard output"  # files that users name are named in their errors
        if name is not None:
            return f"{name}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
