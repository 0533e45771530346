"""Pages of reports: their tables as the command line shows them, below the graph of layers."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vknn.named_files import replacing


class PageReport(ABC):
    """A report that is a page, too."""

    @abstractmethod
    def to_html(self) -> str:
        """The report as one HTML file."""

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """The page of :meth:`to_html` written to a file, which is replaced as a whole."""
        text = self.to_html()
        with replacing(path) as file:
            file.write(text.encode())


def page_table(table: Table, title: str, of: str | None = None) -> dict[str, Any]:
    """A table as pages have it (:func:`vknn.reports.check.check_data`); red rows are wrong.

    ``of``: "rows" or "outputs" of the report, where its rows are these, in their order.
    """
    columns = [
        (_plain(column.header), "number" if column.justify == "right" else "text")
        for column in table.columns
    ]
    cells = zip(*(map(_plain, column.cells) for column in table.columns), strict=True)
    return {
        "title": title,
        "columns": columns,
        "rows": [list(row) for row in cells],
        "wrong": [row.style == "red" for row in table.rows],
        "of": of,
    }


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell), emoji=False).plain
