"""Report of a tuning: rows, a table, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vknn.printable import one_line
from vknn.rich_text import text_of


@dataclass(frozen=True)
class TuneRow:
    """A problem in one form (the layouts that go in and come out).

    Attributes:
        op: Name of the operator.
        layers: The layers of the network that pose the problem.
        key: The problem as text.
        form: The layouts as text.
        times: Microseconds of each candidate by name, the fastest first.
        failures: Why other candidates were struck off, by name.
        winner: The fastest candidate; None where all failed.
        previous: The candidate taken before, by estimate or by an earlier tuning.
    """

    op: str
    layers: tuple[str, ...]
    key: str
    form: str
    times: Mapping[str, float]
    failures: Mapping[str, str]
    winner: str | None
    previous: str

    @property
    def speedup(self) -> float | None:
        """Time of what was taken before over the winner's; None where not known."""
        if self.winner is None or not self.times.get(self.previous):
            return None
        return self.times[self.previous] / max(self.times[self.winner], 1e-9)

    @property
    def saved(self) -> float:
        """Microseconds saved by the winner over all layers; 0 where not known."""
        if self.winner is None or self.previous not in self.times:
            return 0.0
        return len(self.layers) * (self.times[self.previous] - self.times[self.winner])


@dataclass(frozen=True, eq=False)
class TuneReport:
    """Result of :func:`vknn.tune`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device.
        database: The file that remembers the winners.
        rows: One for each problem in one form.
    """

    model: str
    device: str
    database: str
    rows: tuple[TuneRow, ...]

    @property
    def changed(self) -> tuple[TuneRow, ...]:
        """The rows whose winner is another than what was taken before."""
        return tuple(r for r in self.rows if r.winner not in (None, r.previous))

    def summary(self) -> str:
        """The result in one line, how much was measured and what it changes."""
        if not self.rows:
            return "no layer has a choice of kernels: there was nothing to measure"
        tried = sum(len(r.times) + len(r.failures) for r in self.rows)
        struck = sum(len(r.failures) for r in self.rows)
        text = f"{len(self.rows)} problems, {tried} candidates; {len(self.changed)} choices changed"
        saved = sum(r.saved for r in self.rows)
        return text + f", {saved:,.0f} us less a run" + (f"; {struck} struck off" if struck else "")

    def to_json(self) -> str:
        """The report as JSON; times in microseconds."""
        document = {
            "model": self.model,
            "device": self.device,
            "database": self.database,
            "rows": [_row(r) for r in self.rows],
        }
        return json.dumps(document, indent=2)

    def table(self) -> Table:
        """The rows as a rich table."""
        title = Text(one_line(f"{self.model} on {self.device}"))
        table = Table(title=title, title_justify="left")
        for name in ("layers", "operator", "candidates, us"):
            table.add_column(name, overflow="fold")
        for name in ("fastest", "before"):
            table.add_column(name, no_wrap=True)
        table.add_column("gain", justify="right", no_wrap=True)
        for row in self.rows:
            speedup = f"{row.speedup:.2f}x" if row.speedup is not None else ""
            layers = row.layers[0] + (f" (+{len(row.layers) - 1})" if len(row.layers) > 1 else "")
            cells = (layers, row.op, _candidates(row), row.winner or "none", row.previous, speedup)
            table.add_row(*(Text(one_line(cell)) for cell in cells), style=_style(row))
        return table

    def __rich__(self) -> RenderableType:
        return Group(self.table(), Text(self.summary()))

    def __str__(self) -> str:
        return text_of(self)


def _row(row: TuneRow) -> dict[str, Any]:
    return {
        "op": row.op,
        "layers": list(row.layers),
        "key": row.key,
        "form": row.form,
        "times": dict(row.times),
        "failures": dict(row.failures),
        "winner": row.winner,
        "previous": row.previous,
        "speedup": row.speedup,
    }


def _candidates(row: TuneRow) -> str:
    times = ", ".join(f"{name} {time:,.1f}" for name, time in row.times.items())
    return "\n".join([times, *(f"{name}: {why}" for name, why in row.failures.items())]).strip()


def _style(row: TuneRow) -> str | None:
    if row.winner is None:
        return "red"
    return "green" if row.winner != row.previous else None
