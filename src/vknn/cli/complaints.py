"""Errors as lines on stderr, and exit codes."""

from __future__ import annotations

import sys

FAILED, USER_ERROR, INTERNAL_ERROR, STOPPED = 1, 2, 3, 130


def complain(error: BaseException) -> None:
    """An error as a line to stderr, where the command goes on."""
    print(f"vknn: error: {error_text(error)}", file=sys.stderr, flush=True)


def error_text(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
