"""Result of a comparison: rows with a word each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vknn.named_files import replacing
from vknn.profiling.labels import first_rows, named_cell, shortened
from vknn.reports import comparison_page
from vknn.rich_text import text_of

SLOWER, FASTER, SAME, CANNOT_TELL = "slower", "faster", "same", "cannot tell"
#: Of rows that one side lacks.
ONLY_BEFORE, ONLY_AFTER = "only before", "only after"
#: Layers of a row that are shown.
_SHOWN = 3


@dataclass(frozen=True)
class Row:
    """Times of the same layers on both sides; seconds.

    Attributes:
        layers: Their names; several where kernels of either side compute several at once.
        kernels: Kernels before, and after.
        before: Median of the processes' medians; None where that side has no such row.
        after: The same of the other side.
        ratio: Median of the pairs' ratios, or of the medians, after over before; None with a side
            alone, or where that took no time.
        low: Lower end of the ratio's 95 % interval; None where runs are too few for one.
        high: Upper end.
        p: Two-sided p value, of the signs of pairs, else of Mann and Whitney; held against the
            number of rows (Holm).
        word: "faster", "slower", "same", "cannot tell", "only before" or "only after".
    """

    layers: tuple[str, ...]
    kernels: tuple[tuple[str, ...], tuple[str, ...]]
    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float = 1.0
    word: str = CANNOT_TELL

    @property
    def difference(self) -> float:
        """Seconds after less those before."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def name(self) -> str:
        """The layers in one line."""
        names = [shortened(name) for name in self.layers[:_SHOWN]]
        more = len(self.layers) - len(names)
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class ProfileComparison:
    """Result of :func:`vknn.profiling.compare`. ``print`` shows it as tables.

    Attributes:
        before: What was measured before, in a line.
        after: What was measured after.
        unit: What the statistics count: "pairs" of processes that ran in turn, "processes", or
            "runs" of one process, which say less.
        units: Their number before and after.
        whole: Plain runs, without timestamps; its p is held against 1 %, as it is one word.
        rows: Layers, in the order of the plan; their p against 5 %.
        parts: What a run's time was spent on, by name, before and after, as ``Profile.total`` has
            it, in seconds.
        notes: What is to be known before the words are believed.
    """

    before: str
    after: str
    unit: str
    units: tuple[int, int]
    whole: Row
    rows: tuple[Row, ...] = field(repr=False)
    parts: dict[str, tuple[float, float]] = field(repr=False)
    notes: tuple[str, ...] = ()

    def slowdowns(self, over: float = 0.0) -> list[Row]:
        """The whole and the rows that are slower, and by more than ``over`` (0.05: 5 %)."""
        slower = [r for r in (self.whole, *self.rows) if r.word == SLOWER]
        return [r for r in slower if r.ratio is not None and r.ratio > 1 + over]

    def to_json(self) -> str:
        """JSON of everything; times in seconds."""
        return json.dumps(self.document(), indent=2)

    def document(self) -> dict[str, Any]:
        """The comparison as JSON takes it; times in seconds."""
        rows = [{**asdict(r), "difference": r.difference} for r in (self.whole, *self.rows)]
        return {**asdict(self), "whole": rows[0], "rows": rows[1:]}

    def to_html(self) -> str:
        """The comparison as a page: both sides, what made the difference, and all layers."""
        return comparison_page(self.document())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """The page of :meth:`to_html` written to a file."""
        with replacing(path) as file:
            file.write(self.to_html().encode())

    def table(self, order: str = "plan", limit: int | None = None) -> Table:
        """The whole and the rows as a rich table.

        Args:
            order: "plan", or "time" for the largest difference first.
            limit: The most rows; None for all.
        """
        table = Table(title=Text(f"{self.before} -> {self.after}"), title_justify="left")
        table.add_column("layers", overflow="fold")
        table.add_column("kernels", overflow="fold")
        for name in ("before us", "after us", "difference us", "ratio", "95 % interval", "p"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("word", no_wrap=True)
        rows = list(self.rows)
        if order == "time":
            rows.sort(key=lambda r: -abs(r.difference))
        table.add_row(*_cells(self.whole), end_section=True)
        for row in first_rows(rows, limit):
            table.add_row(*_cells(row))
        return table

    def parts_table(self) -> Table:
        """Table of what a run's time was spent on, before and after."""
        table = Table(title="a run, us", title_justify="left")
        table.add_column("")
        for name in ("before", "after", "difference"):
            table.add_column(name, justify="right")
        for name, (before, after) in self.parts.items():
            cells = (f"{1e6 * t:,.0f}" for t in (before, after))
            table.add_row(name, *cells, f"{1e6 * (after - before):+,.0f}")
        return table

    def summary(self) -> list[str]:
        """The verdict and what it rests on, a line each."""
        count = " and ".join(map(str, dict.fromkeys(self.units)))
        lines = [f"{self.whole.word}: {verdict(self.whole)} ({count} {self.unit})"]
        for word in (SLOWER, FASTER):
            named = [r for r in self.rows if r.word == word]
            named.sort(key=lambda r: -abs(r.difference))
            lines += [f"{word}: {r.name}: {verdict(r)}" for r in named[:5]]
        return [*lines, *(f"note: {text}" for text in self.notes)]

    def __rich__(self) -> RenderableType:
        return Group(self.table(), self.parts_table(), *map(Text, self.summary()))

    def __str__(self) -> str:
        return text_of(self)


def verdict(row: Row) -> str:
    """Ratio, interval and p of a row in words."""
    if row.ratio is None:
        return "no ratio"
    span = "" if row.low is None else f", 95 % interval {row.low:.3f} to {row.high:.3f}"
    return f"ratio {row.ratio:.3f}{span}, p {row.p:.2g}"


def _cells(row: Row) -> list[str | Text]:
    before, after = (" ".join(k) for k in row.kernels)
    kernels = before if before == after else f"{before or '-'} -> {after or '-'}"
    times = ["" if t is None else f"{1e6 * t:,.1f}" for t in (row.before, row.after)]
    return [
        named_cell(row.name) if row.layers else Text("the whole, plain runs"),
        Text(kernels),
        *times,
        f"{1e6 * row.difference:+,.1f}",
        "" if row.ratio is None else f"{row.ratio:.3f}",
        "" if row.low is None else f"{row.low:.3f} to {row.high:.3f}",
        "" if row.ratio is None else f"{row.p:.2g}",
        row.word,
    ]
