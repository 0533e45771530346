"""Plan of a job: what would be done, with its first record computed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vknn.scale.layout import JobLayout
from vknn.scale.local import LocalRun
from vknn.scale.stacked import is_worth
from vknn.scale.worker import Worker, device_name


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

    @property
    def answer_bytes(self) -> int | None:
        """Bytes of all answers, before compression, by the first; None where nothing is known."""
        count = self.source["records"]
        return None if self.first is None or count is None else count * int(self.first["bytes"])

    def to_json(self) -> str:
        """The plan as a JSON document."""
        return json.dumps({**asdict(self), "answer_bytes": self.answer_bytes}, indent=2)

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
        return "\n".join([*lines, *self.notes])


def plan_of(run: LocalRun, engine: str, workers: list[str] | None) -> JobPlan:
    """The plan of a run; the first record that can be computed is computed on this machine."""
    with Worker(run.predictor) as worker:
        layout, first, stacked = _first(run, worker)
        here = [f"{device_name(worker)} ({worker.device})"]
    source = run.source
    return JobPlan(
        {
            "kind": source.kind, "files": len(source.paths), "bytes": sum(source.sizes),
            "records": run.outcome.total,
        },
        run.outcome.rows, engine, here if workers is None else workers,
        {i.form.spec.name: i.column for i in layout.inputs}, _types(layout, run.schema), first,
        list(run.outcome.notes), stacked,
    )  # fmt: skip


def _first(run: LocalRun, worker: Worker) -> tuple[JobLayout, dict[str, Any] | None, int]:
    """The columns of answers, what the first record took, and how many one run would compute."""
    layout = worker.layout(run.schema)
    found = run.sample(worker, layout)
    if found is None:
        return layout, None, 1
    layout, rows, record = found.layout, found.rows, found.record
    begin = time.monotonic()
    outputs = worker.answer(record.feeds)
    seconds = time.monotonic() - begin
    cells = worker.cells(layout, record, outputs)
    table = layout.table(rows.table, [cells], [None], [worker.device], "plan")
    name = rows.table.column(0)[0].as_py() if layout.kept else None
    stacked = run.stacked.get(device_name(worker), run.predictor.stacked)
    if stacked is None:
        stacked = worker.measure_stacked(record) if is_worth(run.outcome.total) else 1
    return layout, {"id": name, "seconds": seconds, "bytes": table.nbytes}, stacked


def _types(layout: JobLayout, schema: Mapping[str, Any]) -> dict[str, str]:
    """Names of the columns of answers and their types."""
    made: dict[str, Any] = {name: schema[name] for name in layout.kept}
    made |= {column.name: column.type() for column in layout.outputs}
    made |= layout.answer_types()
    return {name: str(type_) for name, type_ in made.items()}
