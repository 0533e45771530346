"""The table of a profile: commands with their times, and what the compiler made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from vknn.profiling.labels import first_rows, named_cell, shortened
from vknn.profiling.records import Entry
from vknn.profiling.static_columns import MODELLED, Compiled, cells_of, is_spilling

#: Characters of a text below the table.
_LONGEST = 1000


@dataclass(frozen=True)
class Timing:
    """Times of a command or host operator over all runs.

    Attributes:
        entry: What was timed.
        median: Median of the runs, in microseconds.
        least: The shortest, in microseconds.
        share: The median's part of the sum of all medians, from 0 to 1.
    """

    entry: Entry
    median: float
    least: float
    share: float

    @property
    def gflops(self) -> float:
        """Floating point operations a second, in thousands of millions; 0 where not known."""
        return self.entry.flops / self.median / 1e3 if self.median else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes read and written a second, in thousands of millions; 0 where not known."""
        return self.entry.nbytes / self.median / 1e3 if self.median else 0.0


def commands_table(
    title: str,
    rows: Sequence[tuple[Timing, Compiled]],
    columns: Sequence[str],
    limit: int | None,
    assumptions: str = "",
    means: bool = False,
) -> Table:
    """Commands as a table, those that spill in red.

    ``columns``: those of what the compiler made. ``limit``: the most rows; None for all.
    ``assumptions``: what modelled times rest on. ``means``: times are means, nothing else is known.
    """
    table = Table(title=Text(title), title_justify="left", caption_justify="left")
    if assumptions and MODELLED in columns:
        table.caption = Text(f"{MODELLED}: {shortened(assumptions, _LONGEST)}")
    table.add_column("layers", overflow="fold")
    table.add_column("kernel", overflow="fold")
    table.add_column("what", overflow="fold")
    times = ("mean us",) if means else ("median us", "min us")
    for name in ("groups", *times, "share", "GFLOP/s", "GB/s", *columns):
        table.add_column(name, justify="right", no_wrap=name != "bound")
    for timing, compiled in first_rows(rows, limit):
        style = "red" if is_spilling(compiled) else None
        table.add_row(*_cells(timing, means), *cells_of(compiled, columns), style=style)
    return table


def _cells(timing: Timing, means: bool) -> list[str | Text]:
    entry = timing.entry
    least = [] if means else [f"{timing.least:,.1f}"]
    return [
        named_cell(*entry.layers),
        named_cell(entry.kernel),
        named_cell(entry.label),
        "x".join(map(str, entry.groups)) if entry.groups else "",
        f"{timing.median:,.1f}",
        *least,
        f"{timing.share:.1%}",
        f"{timing.gflops:.1f}" if entry.flops else "",
        f"{timing.gbytes:.1f}" if entry.nbytes else "",
    ]
