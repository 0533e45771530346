"""Metrics of rows as a table, and the operator that makes the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.metrics import ArrayMetrics, NotFinite
from vknn.crosscheck.row import VerifyRow
from vknn.printable import one_line


@dataclass(frozen=True)
class NotFiniteSource:
    """The first operator whose result is NaN or infinite.

    Attributes:
        side: "device" where only the device has such a number, "both" where the reference has
            some, too: then the model makes it.
        alone: Whether the operator makes it by itself, of the reference's inputs.
        layer: Name of the layer in the model file.
        op: Name of the operator.
        output: Name of the value.
        kind: "NaN" or "infinity".
        count: Elements of the device's result that are NaN or infinite.
        first: Index of the first that is so on the device alone; None where both sides have it.
    """

    side: str
    alone: bool
    layer: str
    op: str
    output: str
    kind: str
    count: int
    first: tuple[int, ...] | None

    def __str__(self) -> str:
        """The finding in a line."""
        where = "" if self.first is None else f", first at [{', '.join(map(str, self.first))}]"
        plural = "" if self.count == 1 else "s"
        who = (
            "the model itself makes it" if self.side == "both"
            else "by itself" if self.alone else "after the operators before it"
        )  # fmt: skip
        return (
            f"first {self.kind}: {self.op} {self.layer!r} ({self.count} element{plural}{where}), "
            f"{who}"
        )


def first_not_finite(rows: Iterable[VerifyRow]) -> NotFiniteSource | None:
    """The first row in order that has NaN or infinities on the device; else on both sides."""
    both = None
    for row in rows:
        for comparison in (row.isolated, row.cumulative):
            metrics = None if comparison is None else comparison.metrics
            if metrics is None:
                continue
            found = metrics.not_finite
            if found.first is not None:
                return _source(row, "device", comparison is row.isolated, found)
            if both is None and found.expected_nan + found.expected_infinite:
                both = _source(row, "both", comparison is row.isolated, found)
    return both


def _source(row: VerifyRow, side: str, alone: bool, found: NotFinite) -> NotFiniteSource:
    kind, count = found.kind, found.nan + found.infinite
    if side == "both":
        kind = "NaN" if found.expected_nan else "infinity"
        count = found.expected_nan + found.expected_infinite
    return NotFiniteSource(side, alone, row.layer, row.op, row.output, kind, count, found.first)


def metrics_table(rows: Sequence[VerifyRow], title: str, failures_only: bool = False) -> Table:
    """Metrics of each row by itself; of what ran on the host or fails only in a row, cumulative."""
    table = Table(title=escape(one_line(title)), title_justify="left")
    table.add_column("layer", overflow="fold")
    table.add_column("operator", overflow="fold")
    names = ("mean", "median", "p99.9", "max", "cosine", "SNR dB", "ULPs", "over")
    for name in ("of limit: mean", *names[1:]):
        table.add_column(name, justify="right", no_wrap=True)
    own = sorted({name for row in rows for name in _own(row.shown)})
    for name in own:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("first", overflow="fold")
    table.add_column("where", overflow="fold")
    for row in rows:
        if failures_only and row.ok:
            continue
        shown = row.shown
        metrics = None if shown is None else shown.metrics
        cells = [""] * (10 + len(own)) if metrics is None else _cells(metrics, own)
        if shown is not None and shown.problem:
            cells[-1] = shown.problem
        table.add_row(
            escape(one_line(row.layer)), escape(row.op), *cells, style=None if row.ok else "red"
        )
    return table


def _own(comparison: ArrayComparison | None) -> Iterable[str]:
    return () if comparison is None or comparison.metrics is None else comparison.metrics.own


def _cells(metrics: ArrayMetrics, own: Sequence[str]) -> list[str]:
    limit = metrics.of_limit
    return [
        *(_number(v) for v in (limit.mean, limit.median, limit.p999, limit.largest)),
        f"{metrics.cosine:.6f}",
        f"{metrics.snr_db:.1f}",
        "" if metrics.ulps is None else f"{metrics.ulps.largest:.4g}",
        str(metrics.over) if metrics.over else "",
        *(f"{metrics.own[name]:.4g}" if name in metrics.own else "" for name in own),
        "" if metrics.first is None else ",".join(map(str, metrics.first)),
        metrics.where,
    ]


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"
