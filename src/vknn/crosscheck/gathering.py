"""Gathering of reports over many inputs: of each operator the worst is kept, with its input."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.crosscheck.agreement import AnswerAgreement
from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.data_report import DataReport
from vknn.crosscheck.data_rows import DataAgreement, DataRow, SearchTrace, WorstInput
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.row import VerifyRow

#: Inputs with other answers whose names are told.
_TOLD = 10


@dataclass
class _Place:
    """All that is known of one row so far."""

    row: VerifyRow
    records: int = 0
    failed: int = 0
    errors: array[float] = field(default_factory=lambda: array("d"))
    isolated: WorstInput | None = None
    cumulative: WorstInput | None = None

    def add(self, name: str, row: VerifyRow) -> None:
        self.records += 1
        self.failed += not row.ok
        if row.isolated is not None:
            self.errors.append(row.isolated.excess)
        self.isolated = worse(self.isolated, name, row.isolated)
        self.cumulative = worse(self.cumulative, name, row.cumulative)

    def done(self) -> DataRow:
        row = self.row
        median = float(np.median(np.frombuffer(self.errors))) if self.errors else None
        return DataRow(
            row.layer, row.op, row.placement, row.output, self.records, self.failed, median,
            self.isolated, self.cumulative,
        )  # fmt: skip


class ReportGathering:
    """Gathering of the reports of inputs, each by its name."""

    def __init__(self) -> None:
        self.records = 0
        self._device = ""
        self._places: dict[tuple[str, str, str], _Place] = {}
        self._outputs: dict[str, WorstInput] = {}
        self._broken: list[tuple[str, str]] = []
        self._answers: list[tuple[str, AnswerAgreement]] = []
        self._inputs: dict[str, Mapping[str, np.ndarray]] = {}
        self._names: set[str] = set()
        self._layers: list[dict[str, Any]] = []

    def add(self, name: str, feeds: Mapping[str, np.ndarray], report: VerifyReport) -> None:
        """Report of an input."""
        name = self._unique(name)
        self.records += 1
        self._device = report.device
        self._layers = self._layers or report.layers
        for row in report.rows:
            key = (row.node, row.op, row.output)
            self._places.setdefault(key, _Place(row)).add(name, row)
        for output, comparison in report.outputs:
            found = worse(self._outputs.get(output), name, comparison)
            assert found is not None
            self._outputs[output] = found
        if report.agreement is not None:
            self._answers.append((name, report.agreement))
        self._inputs[name] = feeds
        used = {w.record for w in self._worst() if w.comparison.excess}
        self._inputs = {n: kept for n, kept in self._inputs.items() if n in used}

    def add_broken(self, name: str, error: Exception) -> None:
        """Input that could not be read or computed."""
        text = " ".join(str(error).split()) or type(error).__name__
        self._broken.append((self._unique(name), text))

    def report(self, model: str, device: str, trace: SearchTrace | None = None) -> DataReport:
        """Report over all that was gathered."""
        return DataReport(
            model=model,
            device=self._device or device,
            records=self.records,
            rows=tuple(place.done() for place in self._places.values()),
            outputs=tuple(self._outputs.items()),
            broken=tuple(self._broken),
            agreement=_agreement(self._answers),
            trace=trace,
            inputs=self._inputs,
            layers=self._layers,
        )

    def _worst(self) -> Iterable[WorstInput]:
        for place in self._places.values():
            yield from (w for w in (place.isolated, place.cumulative) if w is not None)
        yield from self._outputs.values()

    def _unique(self, name: str) -> str:
        """A name that no other input has."""
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name} ({number})"
        self._names.add(found)
        return found


def worse(
    known: WorstInput | None, name: str, comparison: ArrayComparison | None
) -> WorstInput | None:
    """The worse of what is known and an input's comparison; of equals the first."""
    if comparison is None:
        return known
    if known is None or excess_of(comparison) > excess_of(known.comparison):
        return WorstInput(name, comparison)
    return known


def excess_of(comparison: ArrayComparison) -> float:
    """The largest error of a comparison, of its limit; infinite where it is no number."""
    return math.inf if math.isnan(comparison.excess) else comparison.excess


def _agreement(answers: list[tuple[str, AnswerAgreement]]) -> DataAgreement | None:
    boxes = [(name, a.boxes) for name, a in answers if a.boxes is not None]
    if boxes:
        found = [b for _, b in boxes]
        matched = sum(b.matched for b in found)
        overlap = sum(b.mean_iou * b.matched for b in found)
        return DataAgreement(
            records=len(found),
            boxes=sum(b.expected for b in found),
            matched=matched,
            extra=sum(len(b.extra) for b in found),
            mean_iou=overlap / matched if matched else 1.0,
            differing=tuple(n for n, b in boxes if b.missed or b.extra)[:_TOLD],
        )
    classes = [(name, a.classes[0]) for name, a in answers if a.classes]
    if not classes:
        return None
    examples = sum(c.examples for _, c in classes)
    return DataAgreement(
        records=len(classes),
        top1=sum(c.top1 * c.examples for _, c in classes) / examples,
        top5=sum(c.top5 * c.examples for _, c in classes) / examples,
        differing=tuple(name for name, c in classes if c.top1 < 1)[:_TOLD],
    )
