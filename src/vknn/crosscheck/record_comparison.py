"""Two records of tensors, of runs of the same model anywhere: the first that differs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.comparison import ArrayComparison, compare, in_one_dtype
from vknn.crosscheck.cumulative import check_tolerances, near
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.matching import cosine, matched
from vknn.crosscheck.pages import page_table
from vknn.crosscheck.records import load_record
from vknn.crosscheck.tensor_report import TensorReport, error_cell, listed
from vknn.crosscheck.tensors import NamedTensor
from vknn.precision import CUMULATIVE
from vknn.printable import one_line
from vknn.reports import check_page

Record = str | os.PathLike[str] | Mapping[str, np.ndarray]


@dataclass(frozen=True)
class RecordRow:
    """A tensor of both records.

    Attributes:
        before: Its name in the first record.
        after: Its name in the second.
        how: "name" or "shape": what they were matched by.
        layout: What was done to the second's array to fit; empty where nothing was.
        shape: The shape in the first.
        cosine: Cosine of the angle between the two; 0 where one is zero or not finite.
        comparison: The second held against the first.
    """

    before: str
    after: str
    how: str
    layout: str
    shape: tuple[int, ...]
    cosine: float
    comparison: ArrayComparison


@dataclass(frozen=True)
class RecordComparison(TensorReport):
    """Result of :func:`vknn.crosscheck.compare_records`. ``print`` shows it as a table.

    Attributes:
        before: The first file, or "arrays".
        after: The second.
        rows: One for each tensor of both, in the order of the first.
        only_before: Names of tensors that only the first has.
        only_after: Names of tensors that only the second has.
    """

    before: str
    after: str
    rows: tuple[RecordRow, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True where all tensors of both agree, and there are some."""
        return bool(self.rows) and all(row.comparison.ok for row in self.rows)

    def summary(self) -> str:
        """The verdict in one line: the first tensor that differs."""
        if not self.rows:
            return "no tensor of one record is one of the other"
        wrong = [row for row in self.rows if not row.comparison.ok]
        if not wrong:
            return f"all {len(self.rows)} tensors agree"
        first = wrong[0].comparison
        error = first.problem or f"{error_cell(first)} times what is allowed"
        name = one_line(wrong[0].before)
        return f"{len(wrong)} of {len(self.rows)} tensors differ, first {name!r}: {error}"

    def to_json(self) -> str:
        """The report as JSON (infinities and NaN as strings)."""
        return json_text({**dataclasses.asdict(self), "ok": self.ok})

    def to_html(self) -> str:
        """The report as one HTML file: the table, and what is known of each tensor."""
        document = {
            "model": f"{self.before} and {self.after}",
            "device": "",
            "ok": self.ok,
            "summary": self.summary(),
            "notes": self.notes(),
            "rows": [
                {
                    **dict.fromkeys(("layer", "node", "output"), row.before),
                    "title": f"{row.before} and {row.after}",
                    "ok": row.comparison.ok,
                    "sides": {"the second by the first": dataclasses.asdict(row.comparison)},
                }
                for row in self.rows
            ],
        }
        return check_page(document, [], [page_table(self.table(), "Tensors", "rows")])

    def table(self, failures: bool = False) -> Table:
        """The rows as a rich table; ``failures``: only those that differ."""
        title = Text(f"{one_line(self.before)} -> {one_line(self.after)}")
        table = Table(title=title, title_justify="left")
        for name in ("before", "after", "matched by", "layout"):
            table.add_column(name, overflow="fold")
        for name in ("shape", "largest error", "of what is allowed", "cosine"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.rows:
            found = row.comparison
            if failures and found.ok:
                continue
            names = (one_line(row.before), one_line(row.after), row.how, row.layout)
            numbers = (f"{found.max_abs:.3g}", error_cell(found), f"{row.cosine:.6f}")
            size = "x".join(map(str, row.shape)) or "scalar"
            table.add_row(*map(escape, names), size, *numbers, style=None if found.ok else "red")
        return table

    def notes(self) -> list[str]:
        """A line for each side on tensors that the other lacks."""
        sides = (("before", self.only_before), ("after", self.only_after))
        return [f"only {side}: {listed(names)}" for side, names in sides if names]


def compare_records(
    before: Record,
    after: Record,
    *,
    runner: str | None = None,
    iteration: int | None = None,
    tolerance: float | None = None,
) -> RecordComparison:
    """Comparison of two records, which needs neither model nor device.

    Tensors are matched by name, and by shape where only one fits or one is near; layouts are tried
    as in :func:`vknn.crosscheck.against`.

    Args:
        before: What is taken for right: a file (:func:`vknn.crosscheck.load_record`) or arrays.
        after: What is held against it, likewise.
        runner: As for ``load_record``, of each file of Polygraphy's; so is ``iteration``.
        iteration: As for ``load_record``.
        tolerance: Error allowed to a tensor, relative to its largest element; by default 1e-4, and
            2e-2 where one of them is in float16. Without it integers have to be equal, those of
            8 and 16 bits, which may be codes of real numbers, but for one step.

    Raises:
        vknn.InputError: A file cannot be read.
    """
    check_tolerances(tolerance=tolerance)
    first, second = (_arrays(record, runner, iteration) for record in (before, after))
    tensors = [NamedTensor(name, None, array) for name, array in first.items()]
    matches, left = matched(second, tensors, ("name", "shape"))
    rows = tuple(
        RecordRow(
            m.own.name, m.recorded, m.how, m.layout, m.own.array.shape,
            cosine(m.array, m.own.array), _compared(m.array, m.own.array, tolerance),
        )
        for m in matches
    )  # fmt: skip
    taken = {row.before for row in rows}
    only_before = tuple(name for name in first if name not in taken)
    return RecordComparison(_name(before), _name(after), rows, only_before, tuple(left))


def _arrays(record: Record, runner: str | None, iteration: int | None) -> dict[str, np.ndarray]:
    if isinstance(record, Mapping):
        return dict(record)
    return load_record(record, runner, iteration)


def _name(record: Record) -> str:
    return "arrays" if isinstance(record, Mapping) else os.fspath(record)


def _compared(actual: np.ndarray, right: np.ndarray, tolerance: float | None) -> ArrayComparison:
    halves = np.dtype(np.float16) in (actual.dtype, right.dtype)
    share = CUMULATIVE["fp16" if halves else "fp32", "fp32"] if tolerance is None else tolerance
    actual, right = in_one_dtype(actual, right)
    return compare(actual, right, near(right, share, tolerance is not None))
