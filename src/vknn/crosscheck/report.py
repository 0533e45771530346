"""The result of a cross-check: rows, a table, JSON, arrays."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.agreement import AnswerAgreement
from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.kept_inputs import without_objects
from vknn.crosscheck.metrics_table import (
    NotFiniteSource,
    first_not_finite,
    metrics_table,
)
from vknn.crosscheck.pages import PageReport
from vknn.crosscheck.row import VerifyRow
from vknn.named_files import replacing
from vknn.printable import one_line
from vknn.reports import check_page
from vknn.rich_text import text_of


@dataclass(frozen=True, eq=False)
class VerifyReport(PageReport):
    """Result of :func:`vknn.verify`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device, "NumPy" without one.
        rows: One for each output of each operator, in the order of the graph.
        outputs: The outputs of a plain run of the model, each its name and a comparison.
        arrays: The arrays that were compared, by "<output>/expected", "<output>/isolated" and
            "<output>/cumulative", with the names of the rows' outputs.
        agreement: Of the answers of both sides, where metrics are asked for and outputs are scores
            or boxes; else None.
        layers: The model's layers with the tensors between them, for the page.
    """

    model: str
    device: str
    rows: tuple[VerifyRow, ...]
    outputs: tuple[tuple[str, ArrayComparison], ...] = ()
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    agreement: AnswerAgreement | None = None
    layers: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def ok(self) -> bool:
        """True where every comparison is within its tolerance."""
        return all(r.ok for r in self.rows) and all(c.ok for _, c in self.outputs)

    @property
    def checked(self) -> int:
        """Number of rows computed on a device by themselves; none where nothing was checked."""
        return sum(row.isolated is not None for row in self.rows)

    @property
    def first_failure(self) -> VerifyRow | None:
        """The first operator out of tolerance by itself; else the first that is so cumulatively."""
        alone = [r for r in self.rows if r.isolated is not None and not r.isolated.ok]
        return next(iter(alone or [r for r in self.rows if not r.ok]), None)

    @property
    def has_metrics(self) -> bool:
        """Whether metrics were asked for, and any comparison could have some."""
        return any(c is not None and c.metrics for r in self.rows for c in _both(r))

    @property
    def first_not_finite(self) -> NotFiniteSource | None:
        """The operator that makes the first NaN or infinity; only of reports with metrics."""
        return first_not_finite(self.rows)

    def summary(self) -> str:
        """The verdict in one line, with the operator that is wrong and its largest error."""
        if self.ok and not self.checked:
            return "no operator ran on a Vulkan device: there was nothing to compare"
        if self.ok:
            return f"all {len(self.rows)} operators agree ({self.checked} ran on {self.device})"
        row = self.first_failure
        if row is None:
            name, result = next((n, c) for n, c in self.outputs if not c.ok)
            return f"output {name!r} is out of tolerance: {_describe(result)}"
        isolated = row.isolated is not None and not row.isolated.ok
        result = row.isolated if isolated else row.cumulative  # type: ignore[assignment]
        how = "by itself" if isolated else "after the operators before it"
        return (
            f"first out of tolerance: {row.op} {row.layer!r} ({row.placement}) {how}: "
            f"{_describe(result)}"
        )

    def to_json(self) -> str:
        """The report as JSON (infinities and NaN as strings)."""
        first = self.first_failure
        document = {
            "model": self.model,
            "device": self.device,
            "ok": self.ok,
            "checked": self.checked,
            "first_failure": first.node if first else None,
            "rows": [{**dataclasses.asdict(r), "ok": r.ok} for r in self.rows],
            "outputs": [{"name": n, **dataclasses.asdict(c)} for n, c in self.outputs],
        }
        if self.has_metrics:
            source, agreement = self.first_not_finite, self.agreement
            document["first_not_finite"] = source and dataclasses.asdict(source)
            document["agreement"] = agreement and dataclasses.asdict(agreement)
        return json_text(document, indent=None if self.has_metrics else 2)

    def to_html(self) -> str:
        """The report as one HTML file: layers coloured by error, and what is known of each."""
        return check_page(json.loads(self.to_json()), self.layers)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """The arrays written to a compressed .npz file."""
        arrays = {_key(k): without_objects(_key(k), v) for k, v in self.arrays.items()}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    def table(self, failures_only: bool = False) -> Table:
        """The rows as a rich table; ``failures_only`` leaves out those that agree."""
        table = Table(
            title=escape(one_line(f"{self.model} on {self.device}")), title_justify="left"
        )
        table.add_column("layer", overflow="fold")
        table.add_column("operator", overflow="fold")
        for name in ("where", "output"):
            table.add_column(name, no_wrap=True)
        for name in ("max abs", "max rel", "of limit", "cum. abs", "cum. rel"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("worst at", overflow="fold")
        table.add_column("")
        for row in self.rows:
            if not (failures_only and row.ok):
                table.add_row(*_cells(row), style=None if row.ok else "red")
        return table

    def metrics_table(self, failures_only: bool = False) -> Table:
        """The metrics of the rows as a rich table, of a report that has some."""
        return metrics_table(self.rows, f"{self.model} on {self.device}", failures_only)

    def notes(self) -> list[str]:
        """Lines on answers, and on the first NaN or infinity; only of reports with metrics."""
        source = self.first_not_finite
        made = [] if self.agreement is None else self.agreement.lines()
        return made if source is None else [*made, str(source)]

    def __rich__(self) -> RenderableType:
        if self.has_metrics:
            return Group(
                self.table(),
                self.metrics_table(),
                *map(Text, self.notes()),
                Text(self.summary(), style="green" if self.ok else "bold red"),
            )
        return Group(self.table(), Text(self.summary(), style="green" if self.ok else "bold red"))

    def __str__(self) -> str:
        return text_of(self)


def _cells(row: VerifyRow) -> list[str]:
    alone, after = row.isolated, row.cumulative
    shown = row.shown
    return [
        escape(one_line(row.layer)),
        escape(row.op),
        row.placement,
        _short_type(row.type),
        *([_number(alone.max_abs), _number(alone.max_rel)] if alone else ["", ""]),
        _number(alone.excess) if alone else "",
        *([_number(after.max_abs), _number(after.max_rel)] if after else ["", ""]),
        _worst(shown),
        "ok" if row.ok else "FAIL",
    ]


def _short_type(type_: str) -> str:
    """float32[1, 8, 5, 5] as 1x8x5x5; other dtypes are named."""
    return type_.replace("float32", "").replace(", ", "x").strip("[]").replace("[", " ")


def _worst(result: ArrayComparison | None) -> str:
    if result is None or result.problem is not None or result.worst is None:
        return (result.problem or "") if result else ""
    if result.max_abs == 0:
        return ""
    at = ",".join(map(str, result.worst))
    return at if result.ok else f"{at}: {result.actual:.7g} for {result.expected:.7g}"


def _describe(result: ArrayComparison | None) -> str:
    assert result is not None
    if result.problem is not None:
        return result.problem
    at = ", ".join(map(str, result.worst or ()))
    return (
        f"{result.actual!r} instead of {result.expected!r} at [{at}], "
        f"{_number(result.excess)} times what is allowed"
    )


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _key(name: str) -> str:
    """A name as a member of a zip archive."""
    return name.lstrip("/").replace("\\", "_")


def _both(row: VerifyRow) -> tuple[ArrayComparison | None, ArrayComparison | None]:
    return row.isolated, row.cumulative
