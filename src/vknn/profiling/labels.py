"""Names out of model files as cells of tables: they may hold anything."""

from __future__ import annotations

from rich.text import Text

from vknn.printable import one_line

#: Characters of a name that are shown.
_LONGEST = 80


def named_cell(*names: str) -> Text:
    """Names as a table's cell: one line, without markup, long ones shortened.

    They come out of model files and may hold anything.
    """
    return Text(", ".join(shortened(name) for name in names), overflow="fold")


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name in one printable line, the middle of a long one left out."""
    line = one_line(name)
    return line if len(line) <= longest else f"{line[: longest - 16]}…{line[-15:]}"
