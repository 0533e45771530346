"""Plan of a job: what would be done, with its first records computed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vknn.scale.first_record import records_of
from vknn.scale.layout import JobLayout
from vknn.scale.local import LocalRun
from vknn.scale.options import LABEL, PROBABILITY
from vknn.scale.reading import read
from vknn.scale.records import Record
from vknn.scale.report import finite
from vknn.scale.stacked import is_worth
from vknn.scale.worker import Worker, device_name

#: Records that a plan computes.
_ROWS = 4


@dataclass
class JobPlan:
    """Plan of a job.

    Attributes:
        source: What is read: kind, files, bytes, records (None: not known before they are read).
        done: Records that have answers.
        engine: "local" or "ray".
        workers: Where they compute, one text for each.
        inputs: Input of the model -> column that it is read from.
        columns: Column of answers -> its Arrow type.
        first: The first record that could be computed: id, seconds, bytes of its answer.
        notes: What else there is to say.
        stacked: Records of one shape that one run would compute here.
        rows: The first records of the source: id, seconds, error (null for good ones), and what
            answers tell, such as label and probability.
    """

    source: dict[str, Any]
    done: int
    engine: str
    workers: list[str]
    inputs: dict[str, str]
    columns: dict[str, str]
    first: dict[str, Any] | None
    notes: list[str] = field(default_factory=list)
    stacked: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def answer_bytes(self) -> int | None:
        """Bytes of all answers, before compression, by the first; None where nothing is known."""
        count = self.source["records"]
        return None if self.first is None or count is None else count * int(self.first["bytes"])

    def to_json(self) -> str:
        """The plan as a JSON document."""
        document = {**asdict(self), "answer_bytes": self.answer_bytes}
        return json.dumps(finite(document), indent=2, default=str, allow_nan=False)

    def __str__(self) -> str:
        source = self.source
        count = "an unknown number of" if source["records"] is None else source["records"]
        lines = [
            f"{count} records in {source['files']} files ({source['kind']}, "
            f"{source['bytes'] / 2**20:.1f} MiB), {self.done} of them done",
            f"engine {self.engine}: {', '.join(self.workers)}",
            *(f"input {name} from column {column}" for name, column in self.inputs.items()),
            *(f"column {name}: {type_}" for name, type_ in self.columns.items()),
        ]
        if self.first is not None:
            size = self.answer_bytes
            total = "" if size is None else f"; all answers about {size / 2**20:.1f} MiB"
            lines.append(
                f"{self.stacked} records a run" if self.stacked > 1 else "one record a run"
            )
            lines.append(
                f"record {self.first['id']!r} computed in {self.first['seconds']:.3f} s{total}"
            )
        return "\n".join([*lines, *map(_row_text, self.rows), *self.notes])


def plan_of(run: LocalRun, engine: str, workers: list[str] | None) -> JobPlan:
    """The plan of a run; the first record that can be computed is computed on this machine."""
    with Worker(run.predictor) as worker:
        layout, first, stacked, rows = _first(run, worker)
        here = [f"{device_name(worker)} ({worker.device})"]
    source = run.source
    return JobPlan(
        {
            "kind": source.kind, "files": len(source.paths), "bytes": sum(source.sizes),
            "records": run.outcome.total,
        },
        run.outcome.rows, engine, here if workers is None else workers,
        {i.form.spec.name: i.column for i in layout.inputs}, _types(layout, run.schema), first,
        list(run.outcome.notes), stacked, rows,
    )  # fmt: skip


def _first(
    run: LocalRun, worker: Worker
) -> tuple[JobLayout, dict[str, Any] | None, int, list[dict[str, Any]]]:
    """The columns of answers, what the first good record took, records of one run, first rows."""
    layout = worker.layout(run.schema)
    found = run.sample(worker, layout)
    if found is None:
        return layout, None, 1, _rows(run, worker, layout)
    layout, rows, record = found.layout, found.rows, found.record
    begin = time.perf_counter()
    outputs = worker.answer(record.feeds)
    seconds = time.perf_counter() - begin
    cells = worker.cells(layout, record, outputs)
    table = layout.table(rows.table, [cells], [None], [worker.device], "plan")
    name = rows.table.column(0)[0].as_py() if layout.kept else None
    first_rows = _rows(run, worker, layout)
    stacked = run.stacked.get(device_name(worker), run.predictor.stacked)
    if stacked is None:
        stacked = worker.measure_stacked(record) if is_worth(run.outcome.total) else 1
    first = {"id": name, "seconds": seconds, "bytes": table.nbytes}
    return layout, first, stacked, first_rows


def _rows(run: LocalRun, worker: Worker, layout: JobLayout) -> list[dict[str, Any]]:
    """The first records of the source, computed."""
    made = []
    rows = next(read(run.source, layout.read, _ROWS), None)
    for number, record in enumerate([] if rows is None else records_of(layout, rows)):
        assert rows is not None and isinstance(record, Record)
        begin = time.perf_counter()
        ((_, found),) = worker.results([record])
        cells, error = worker.row(layout, record, found)
        name = rows.table.column(0)[number].as_py() if layout.kept else number
        told = {column: cells.get(column) for column in layout.answer_types()}
        made.append({"id": name, "seconds": time.perf_counter() - begin, "error": error, **told})
    return made


def _row_text(row: Mapping[str, Any]) -> str:
    """A first record in words."""
    error, label = row["error"], row.get(LABEL)
    if error is not None:
        told = f"{error['type']}: {error['message']}"
    else:
        told = "computed" if label is None else f"{label} ({row[PROBABILITY]:.3f})"
    return f"row {row['id']!r}: {told}"


def _types(layout: JobLayout, schema: Mapping[str, Any]) -> dict[str, str]:
    """Names of the columns of answers and their types."""
    made: dict[str, Any] = {name: schema[name] for name in layout.kept}
    made |= {column.name: column.type() for column in layout.outputs}
    made |= layout.answer_types()
    return {name: str(type_) for name, type_ in made.items()}
