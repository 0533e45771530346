"""Words of command lines that stand in an option."""

from __future__ import annotations

import os
import shlex


def command_words(text: str) -> list[str]:
    """The words of a command line, in quotation marks where they have spaces.

    A backslash is one of a path on Windows, elsewhere it is what POSIX's shells take it for. Raises
    ValueError for a quotation mark that is not closed.
    """
    if os.name != "nt":
        return shlex.split(text)
    return [_unquoted(word) for word in shlex.split(text, posix=False)]


def _unquoted(word: str) -> str:
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "\"'"
    return word[1:-1] if is_quoted else word
