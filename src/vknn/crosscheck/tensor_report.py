"""Parts that reports on tensors by their names share: cells, lists of names, printing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.pages import PageReport
from vknn.printable import one_line
from vknn.rich_text import text_of

#: Names of tensors that are shown in a line.
_SHOWN = 20


class TensorReport(PageReport):
    """A table, with lines below it. ``print`` shows both."""

    @abstractmethod
    def table(self, failures: bool = False) -> Table:
        """The rows as a rich table; ``failures``: only those that differ."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Lines on what was not compared."""

    @abstractmethod
    def summary(self) -> str:
        """The verdict in one line."""

    def remarks(self) -> Group:
        """Lines below the table: :meth:`notes` and :meth:`summary`."""
        return Group(*map(Text, (*self.notes(), self.summary())))

    def __rich__(self) -> RenderableType:
        return Group(self.table(), self.remarks())

    def __str__(self) -> str:
        return text_of(self)


def error_cell(comparison: ArrayComparison | None) -> str:
    """The error of a comparison as a multiple of what is allowed; empty without one."""
    if comparison is None:
        return ""
    return comparison.problem or ("0" if not comparison.excess else f"{comparison.excess:.2g}")


def listed(names: Sequence[str]) -> str:
    """The first names of tensors, and how many more there are."""
    shown = ", ".join(map(one_line, names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
