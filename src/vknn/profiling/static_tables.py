"""Tables of a static profile."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from vknn.printable import one_line
from vknn.profiling.invocation import Tally
from vknn.profiling.labels import first_rows
from vknn.profiling.static_entry import NAMES, StaticEntry


def driver_table(title: str, entries: Sequence[StaticEntry]) -> Table:
    """The driver's numbers of dispatches, a row each; those that spill in red."""
    table = Table(title=_plain(title), title_justify="left")
    for name in ("layers", "kernel", "what"):
        table.add_column(name, overflow="fold")
    for name in ("groups", "subgroups", *NAMES):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        numbers = [getattr(entry, name) for name in ("subgroups", *NAMES)]
        table.add_row(
            *map(_plain, (", ".join(entry.layers), entry.kernel, entry.label)),
            "x".join(map(str, entry.groups)),
            *("" if number is None else f"{number:,}" for number in numbers),
            style="red" if entry.spilling else None,
        )
    return table


#: What an invocation does, what a round of its hottest loop does, and what the model says.
_COLUMNS = (
    *("multiply-adds", "loaded", "stored", "shared", "barriers"),
    *("rounds", "a round", "share", "us", "bound", "flags"),
)


def counts_table(
    title: str,
    entries: Sequence[StaticEntry],
    limit: int | None,
    time: float | None,
    assumptions: str,
    remark: str = "",
) -> Table:
    """Counts of one invocation and modelled times of dispatches, with the sum of the times.

    ``time``: the sum. ``assumptions``, ``remark``: what is written below.
    """
    coarse = any(e.modelled is not None and e.modelled.coarse for e in entries)
    times = [e.modelled.time for e in entries if e.modelled is not None]
    caption = "an invocation's counts; bytes" + (f"; {assumptions}" if times else "")
    if coarse:
        caption += "; times are coarse: from the counts, not from machine code"
    if remark:
        caption += f"; {remark}"
    table = Table(
        title=_plain(title),
        title_justify="left",
        caption=_plain(caption),
        caption_justify="left",
    )
    for name in ("layers", "what"):
        table.add_column(name, overflow="fold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=name not in ("bound", "flags"))
    for entry in first_rows(entries, limit):
        cells = (*_counted(entry), *_modelled(entry), _plain(", ".join(entry.flags)))
        table.add_row(_plain(", ".join(entry.layers)), _plain(entry.label), *cells)
    if times:
        whole = f"{sum(times):,.1f}" if time is not None else f"over {sum(times):,.1f}"
        table.add_row("all", *[""] * 9, whole)
    return table


def _plain(text: str) -> str:
    """Text of a file, which may hold anything, as a cell takes it: one line, without markup."""
    return escape(one_line(text))


def _counted(entry: StaticEntry) -> list[str]:
    """Cells of the counts and of the hottest loop."""
    counts = entry.counts
    if counts is None:
        return ["not counted" if entry.not_counted else "", *[""] * 6]
    numbers = (counts.load_bytes, counts.store_bytes, counts.shared_loads + counts.shared_stores)
    cells = [_number(n) for n in (counts.work, *numbers, counts.barriers)]
    if entry.hot is None:
        return [*cells, "", ""]
    return [*cells, f"{entry.hot.rounds:,}", _round(entry.hot.each)]


def _round(each: Tally) -> str:
    """A round of a loop: multiply-adds, loads and barriers of it."""
    parts = [f"{_number(each.work)} ma", f"{_number(each.loads)} ld"]
    return ", ".join(parts + ([f"{_number(each.barriers)} bar"] if each.barriers else []))


def _modelled(entry: StaticEntry) -> list[str]:
    found = entry.modelled
    if found is None:
        return ["", "", ""]
    share = "" if found.share is None else f"{found.share:.0%}"
    return [share, f"{found.time:,.1f}", found.bound]


def _number(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"
