"""Names out of model files as cells of tables: they may hold anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rich.text import Text

from vknn.errors import VknnError
from vknn.printable import one_line

T = TypeVar("T")

#: Characters of a name that are shown.
_LONGEST = 80


def first_rows(rows: Sequence[T], limit: int | None) -> Sequence[T]:
    """The first ``limit`` rows of a table, None for all; raises VknnError for what is no number."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise VknnError(f"limit={limit!r:.80}: expected a number of rows from 0 on, or None")
    return rows[:limit]


def named_cell(*names: str) -> Text:
    """Names as a table's cell: one line, without markup, long ones shortened.

    They come out of model files and may hold anything.
    """
    return Text(", ".join(shortened(name) for name in names), overflow="fold")


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name in one printable line, the middle of a long one left out."""
    line = one_line(name)
    return line if len(line) <= longest else f"{line[: longest - 16]}…{line[-15:]}"
