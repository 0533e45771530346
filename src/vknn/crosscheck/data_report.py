"""Result of a cross-check over many inputs: of each operator the worst, and which input gave it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.data_rows import DataAgreement, DataRow, SearchTrace, WorstInput
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.kept_inputs import write_inputs
from vknn.crosscheck.metrics_table import metrics_table
from vknn.crosscheck.pages import PageReport, page_table
from vknn.printable import one_line
from vknn.reports import check_page
from vknn.rich_text import text_of

#: Broken inputs that are told one by one.
_TOLD = 10


@dataclass(frozen=True, eq=False)
class DataReport(PageReport):
    """Result of :func:`vknn.crosscheck.verify_over` and of :func:`vknn.crosscheck.search`.

    ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device, "NumPy" without one.
        records: Number of inputs that were compared.
        rows: One for each output of each operator, in the order of the graph.
        outputs: Of the outputs of plain runs the worst, by name.
        broken: Inputs that could not be read or computed: name and error.
        agreement: Of the answers, where metrics were asked for; else None.
        trace: Of a search; else None.
        inputs: The arrays of each input that is the worst for a row or an output, by its name.
        layers: The model's layers for the first input, with the tensors between them, for the page.
    """

    model: str
    device: str
    records: int
    rows: tuple[DataRow, ...]
    outputs: tuple[tuple[str, WorstInput], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    agreement: DataAgreement | None = None
    trace: SearchTrace | None = None
    inputs: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict, repr=False)
    layers: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def ok(self) -> bool:
        """True where every comparison is within its tolerance, for all inputs."""
        return all(r.ok for r in self.rows) and all(w.comparison.ok for _, w in self.outputs)

    @property
    def checked(self) -> int:
        """Number of rows computed on a device by themselves; none where nothing was checked."""
        return sum(row.isolated is not None for row in self.rows) if self.records else 0

    @property
    def first_failure(self) -> DataRow | None:
        """The first operator out of tolerance by itself; else the first that is so cumulatively."""
        alone = [r for r in self.rows if r.isolated and not r.isolated.comparison.ok]
        return next(iter(alone or [r for r in self.rows if not r.ok]), None)

    def summary(self) -> str:
        """The verdict in one line, with the operator that is wrong and the input that shows it."""
        if not self.records:
            return "no input could be compared"
        if self.ok and not self.checked:
            return "no operator ran on a Vulkan device: there was nothing to compare"
        if self.ok:
            return f"all {len(self.rows)} operators agree for {_inputs(self.records)}"
        row = self.first_failure
        if row is None:
            name, worst = next((n, w) for n, w in self.outputs if not w.comparison.ok)
            return f"output {name!r} is out of tolerance for {one_line(worst.record)}"
        alone = row.isolated is not None and not row.isolated.comparison.ok
        found = row.isolated if alone else row.cumulative
        assert found is not None
        how = "by itself" if alone else "after the operators before it"
        return (
            f"first out of tolerance: {row.op} {row.layer!r} ({row.placement}) {how}, for "
            f"{row.failed} of {row.records} inputs; the worst is {one_line(found.record)}: "
            f"{found.comparison.problem or _times(found.comparison)}"
        )

    def notes(self) -> list[str]:
        """Lines on inputs that could not be compared, on answers and on the search."""
        made = [
            one_line(error if error.startswith(name) else f"{name}: {error}")
            for name, error in self.broken[:_TOLD]
        ]
        if self.broken:
            left = len(self.broken) - len(made)
            made.append(
                f"{_inputs(len(self.broken))} could not be compared"
                + (f" ({left} more than named here)" if left else "")
            )
        made += [str(part) for part in (self.agreement, self.trace) if part is not None]
        return made

    def to_json(self) -> str:
        """The report as JSON (infinities and NaN as strings), without the arrays."""
        first = self.first_failure
        return json_text(
            {
                "model": self.model,
                "device": self.device,
                "ok": self.ok,
                "checked": self.checked,
                "records": self.records,
                "broken": [{"record": n, "error": e} for n, e in self.broken],
                "first_failure": first and first.output,
                "rows": [{**dataclasses.asdict(r), "ok": r.ok} for r in self.rows],
                "outputs": [{"name": n, **dataclasses.asdict(w)} for n, w in self.outputs],
                "agreement": self.agreement and dataclasses.asdict(self.agreement),
                "search": self.trace and dataclasses.asdict(self.trace),
            }
        )

    def to_html(self) -> str:
        """The report as one HTML file: layers in the colour of their worst errors, and tables."""
        document = {
            "model": self.model,
            "device": self.device,
            "ok": self.ok and bool(self.records),
            "summary": self.summary(),
            "notes": self.notes(),
            "rows": [_page_row(row) for row in self.rows],
            "outputs": [{"name": name, **_with_input(worst)} for name, worst in self.outputs],
        }
        tables = [
            page_table(self.table(), f"Operators over {_inputs(self.records)}", "rows"),
            page_table(self._output_table(), "Outputs of plain runs", "outputs"),
        ]
        if self.trace is not None:
            tables.append(page_table(self.trace.table(), "What the search climbed"))
        return check_page(document, self.layers, tables)

    def keep_worst(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """The worst inputs written to a folder, each as a .npz with the names of the inputs.

        ``worst.json`` beside them says which operators each is the worst of, and of a search its
        seed and its number of steps, with which it finds them again.

        Args:
            folder: It is made where it is missing.

        Returns:
            The files by the names of the inputs.

        Raises:
            OSError: They cannot be written.
            vknn.VknnError: An input holds objects, which no .npz can hold safely.
        """
        found = self.trace
        how = None if found is None else {"seed": found.seed, "steps": found.steps}
        return write_inputs(folder, self.inputs, self._worst_of(), how)

    def _worst_of(self) -> dict[str, list[dict[str, Any]]]:
        """Of each kept input the rows and outputs that it is the worst of."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.inputs}
        for row in self.rows:
            place = {"layer": row.layer, "op": row.op, "output": row.output}
            for how, worst in (("isolated", row.isolated), ("cumulative", row.cumulative)):
                if worst is not None and worst.record in found and worst.comparison.excess:
                    excess = worst.comparison.excess
                    found[worst.record].append({**place, "how": how, "excess": excess})
        for name, worst in self.outputs:
            if worst.record in found and worst.comparison.excess:
                entry = {"output": name, "how": "as run", "excess": worst.comparison.excess}
                found[worst.record].append(entry)
        return found

    def table(self, failures_only: bool = False) -> Table:
        """The rows as a rich table; ``failures_only`` leaves out those that agree."""
        title = f"{self.model} on {self.device}, {_inputs(self.records)}"
        table = Table(title=escape(one_line(title)), title_justify="left")
        for name in ("layer", "operator"):
            table.add_column(name, overflow="fold")
        table.add_column("where", no_wrap=True)
        for name in ("failed", "median", "of limit"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("worst input", overflow="fold")
        table.add_column("cum.", justify="right", no_wrap=True)
        table.add_column("worst input, cum.", overflow="fold")
        table.add_column("")
        for row in self.rows:
            if not (failures_only and row.ok):
                table.add_row(*_cells(row), style=None if row.ok else "red")
        return table

    def _output_table(self) -> Table:
        table = Table("output", "worst input", "worst at", "problem")
        table.add_column("of limit", justify="right")
        for name, worst in self.outputs:
            found = worst.comparison
            at = "" if found.worst is None else ",".join(map(str, found.worst))
            table.add_row(
                *(escape(one_line(text)) for text in (name, worst.record, at, found.problem or "")),
                _number(found.excess),
                style=None if found.ok else "red",
            )
        return table

    def metrics_table(self, failures_only: bool = False) -> Table:
        """The metrics of the worst of each row as a rich table, of a report that has some."""
        title = f"{self.model} on {self.device}, the worst of {_inputs(self.records)}"
        return metrics_table([row.worst_row for row in self.rows], title, failures_only)

    def __rich__(self) -> RenderableType:
        style = "green" if self.ok and self.records else "bold red"
        lines = [Text(line) for line in self.notes()]
        return Group(self.table(), *lines, Text(self.summary(), style=style))

    def __str__(self) -> str:
        return text_of(self)


def _cells(row: DataRow) -> list[str]:
    return [
        escape(one_line(row.layer)),
        escape(row.op),
        row.placement,
        f"{row.failed}/{row.records}" if row.failed else "",
        "" if row.median is None else _number(row.median),
        *_worst(row.isolated),
        *_worst(row.cumulative),
        "ok" if row.ok else "FAIL",
    ]


def _page_row(row: DataRow) -> dict[str, Any]:
    """The row as pages have those of one input, with the names of the worst ones."""
    both = (("isolated", row.isolated), ("cumulative", row.cumulative))
    return {
        **dataclasses.asdict(row.worst_row),
        "ok": row.ok,
        "sides": {side: _with_input(worst) for side, worst in both if worst is not None},
    }


def _with_input(worst: WorstInput) -> dict[str, Any]:
    return {**dataclasses.asdict(worst.comparison), "told": {"worst input": worst.record}}


def _worst(worst: WorstInput | None) -> tuple[str, str]:
    """The error of a limit and the name of the input; no name where there is no error."""
    if worst is None:
        return "", ""
    excess = worst.comparison.excess
    return _number(excess), escape(one_line(worst.record)) if excess else ""


def _inputs(count: int) -> str:
    return "1 input" if count == 1 else f"{count} inputs"


def _times(comparison: ArrayComparison) -> str:
    return f"{_number(comparison.excess)} times what is allowed"


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"
