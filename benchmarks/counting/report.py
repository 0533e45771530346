"""Tables in Markdown, and their place in a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *rows))


def between_markers(page: Path, marker: str, text: str) -> None:
    """Update of a page between ``<!-- marker: begin -->`` and ``<!-- marker: end -->``. Raises
    ValueError where it lacks them."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    head, found, rest = page.read_text().partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} lacks the lines {begin} and {end}")
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}")
