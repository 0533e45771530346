"""Job: a source through a model into a folder of answers, begun or taken up again."""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.archives import UnreadError
from vknn.scale.doubles import drop_doubles
from vknn.scale.folder import Folder
from vknn.scale.layout import JobLayout
from vknn.scale.local import LocalRun
from vknn.scale.on_ray import RayRun, planned_workers, remove_pending
from vknn.scale.optional import has_ray
from vknn.scale.options import DEVICE, ERROR, NUMPY, Predictor, predictor_of
from vknn.scale.outcome import JobError, Outcome
from vknn.scale.plan import JobPlan, plan_of
from vknn.scale.reading import read
from vknn.scale.redo import errors_of, replace_rows
from vknn.scale.report import Report
from vknn.scale.same_job import differences, document_of
from vknn.scale.shares import ErrorBound
from vknn.scale.sources import PARQUET, RecordSource, check_apart, find_source, without_answers
from vknn.scale.survey import Survey, is_of_kind, surveyed
from vknn.scale.worker import Worker

ENGINES = ("auto", "local", "ray")
#: Records above which "auto" takes Ray, where it is installed; bytes where nobody counted them.
LOCAL_ROWS, LOCAL_BYTES = 20_000, 1 << 31
DONE, STOPPED = "done", "stopped"
_NO_ID = "the source has no id column: this job cannot be taken up again (--id names one)"
#: A folder, pattern, file or address, or a list of these.
Given = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def run(
    source: Given,
    model: str | os.PathLike[str] | Predictor,
    output: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    address: str | None = None,
    errors: str | float | None = None,
    restart: bool = False,
    redo_suspect: bool = False,
    progress: Callable[[Outcome], None] | None = None,
    **options: Any,
) -> Report:
    """A model run on all records of a source; the answers become Parquet files.

    A job that was broken off goes on where it was. Every record ends in one row: its id, the
    columns that are kept, each output, what the outputs mean where that is known, the device, the
    batch, and the error where it could not be computed.

    Args:
        source: A folder, a pattern, a file, an address such as s3://bucket/key, or a list of these:
            pictures, Parquet, .npy, .npz or tars.
        model: The model file, or a :class:`Predictor`.
        output: Folder for the answers, or an address.
        weights: The model's second file, where it does not lie beside it.
        engine: "local" (this process, one device), "ray", or "auto".
        address: Of a Ray cluster; None: one is started on this machine where Ray is used.
        errors: How many records may fail: a number, or a share such as "0.1%"; None: all may.
        restart: Whether to remove answers of an earlier run and begin anew.
        redo_suspect: Whether to compute the rows again, elsewhere, that a device wrote which
            disagreed with NumPy later; nothing else is computed then.
        progress: Told how far the job is, every few seconds.
        options: Those of :class:`Predictor`.

    Returns:
        A report.

    Raises:
        vknn.scale.JobError: More records failed than may, an archive is damaged, or a device
            computes wrong; its report says how far the job came.
        vknn.InputError: Source, columns, ids or options do not fit; nothing was computed.
        vknn.VknnError: The model cannot be opened, or the folder holds another job.
    """
    predictor = predictor_of(model, weights, options)
    found = run_job(
        source, predictor, output, engine=engine, address=address, errors=errors, restart=restart,
        redo_suspect=redo_suspect, progress=progress,
    )  # fmt: skip
    assert isinstance(found, Report)
    return found


def plan(
    source: Given,
    model: str | os.PathLike[str] | Predictor,
    output: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    address: str | None = None,
    **options: Any,
) -> JobPlan:
    """Plan of what :func:`run` would do with the same arguments; first records are computed here.

    Raises:
        vknn.VknnError: As :func:`run`; nothing is written.
    """
    predictor = predictor_of(model, weights, options)
    found = run_job(source, predictor, output, engine=engine, address=address, dry_run=True)
    assert isinstance(found, JobPlan)
    return found


def run_job(
    source: Given,
    predictor: Predictor,
    output: str | os.PathLike[str],
    *,
    engine: str = "auto",
    address: str | None = None,
    errors: str | float | None = None,
    restart: bool = False,
    redo_suspect: bool = False,
    progress: Callable[[Outcome], None] | None = None,
    dry_run: bool = False,
) -> Report | JobPlan:
    """:func:`run`, or with ``dry_run`` :func:`plan`."""
    if engine not in ENGINES:
        raise InputError(f"engine={engine!r}: expected one of {', '.join(ENGINES)}")
    bound = ErrorBound.of(errors)
    files = find_source(source)
    predictor = _named(predictor, files)
    folder = Folder(output)
    check_apart(files, folder.filesystem, folder.path, folder.text)
    files = without_answers(files, folder.filesystem, folder.path)
    found = surveyed(files, predictor.id, predictor.kept)
    job = _Job(predictor, found, folder, bound, progress)
    folder.check_own()
    if dry_run:
        return job.plan(engine, address)
    folder.create()
    with folder.held():
        if restart:
            job.clear(engine, address)
        folder.sweep()
        remove_pending(folder)
        return job.run(engine, address, redo_suspect)


class _Job:
    def __init__(
        self,
        predictor: Predictor,
        survey: Survey,
        folder: Folder,
        bound: ErrorBound,
        progress: Callable[[Outcome], None] | None,
    ) -> None:
        self.predictor, self.source, self.folder = predictor, survey.source, folder
        self.schema, self.bound, self.progress = survey.schema, bound, progress
        self.outcome = Outcome(total=survey.count)
        if self.source.aside:
            self.outcome.note(self.source.aside)
        self.engine = "local"
        self.document = document_of(predictor, self.source, folder)
        #: Records that one run computes, by the name of the device, as far as it was measured.
        self.stacked: dict[str, int] = {}

    def run(self, engine: str, address: str | None, redo_suspect: bool) -> Report:
        """The job on the engine that fits; its report, which job.json keeps, too."""
        before = self._before()
        done = self._done(before)
        if self.predictor.id is not None and len(done) < self.outcome.rows:
            drop_doubles(self.folder, self.predictor.id)
            self.outcome = Outcome(total=self.outcome.total, notes=self.outcome.notes)
            done = self._done(before)
        self.engine = self._engine(engine, address)
        if self.predictor.id is None:
            warnings.warn(_NO_ID, RuntimeWarning, stacklevel=4)
        if before is None and self.folder.job() is not None:  # of another one, which wrote nothing
            self.folder.clear()
        left = redo_suspect and (before is None or before.get("state") != DONE)
        try:
            if redo_suspect:
                self._redo(done, before)
            elif done and not self._is_left(done):
                self.outcome.notes.append("every record has a row: nothing was left to do")
            elif self.engine == "ray":
                RayRun(**self._given(done, before), address=address).run(self._remember)
            else:
                self._local(done, before).run(self._remember)
            if not redo_suspect:
                self._check_end()
        except (JobError, UnreadError) as error:
            told = error if isinstance(error, JobError) else JobError(str(error))
            told.report = self._finish(STOPPED)
            raise told from None
        except BaseException:
            with contextlib.suppress(VknnError):  # such as of a full disk: the first is told
                self._finish(STOPPED)
            raise
        if left:
            self.outcome.notes.append("only suspect rows were computed: others are left")
        return self._finish(STOPPED if left else DONE)

    def _check_end(self) -> None:
        """Check that all records have rows, and not too many an error. Raises JobError."""
        total, rows = self.outcome.total, self.outcome.rows
        # There may be more: rows of records that have left the source since an earlier run.
        if total is not None and rows < total:
            raise JobError(
                f"{total} records have {rows} rows: the source changed while the job ran, or files "
                "of it vanished; run it again"
            )
        if text := self.outcome.excess(self.bound, is_end=True):
            raise JobError(text)

    def clear(self, engine: str, address: str | None) -> None:
        """Removal of earlier answers, where the job can begin anew. Raises VknnError."""
        if self.folder.parts():
            here = self._engine(engine, address) == "local"
            with Worker(self.predictor, None if here else NUMPY) as worker:
                worker.layout(self.schema)
        self.folder.clear()

    def plan(self, engine: str, address: str | None) -> JobPlan:
        """The plan of :meth:`run`."""
        before = self._before()
        done = self._done(before)
        self.engine = self._engine(engine, address)
        workers = None
        if self.engine == "ray":
            workers = planned_workers(self.predictor, address)
        return plan_of(self._local(done, before), self.engine, workers)

    def _local(self, done: set[Any], before: Mapping[str, Any] | None) -> LocalRun:
        return LocalRun(**self._given(done, before))

    def _given(self, done: set[Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
        """What both engines are given."""
        return {
            "predictor": self.predictor, "source": self.source, "folder": self.folder,
            "schema": self.schema, "done": done, "bound": self.bound, "outcome": self.outcome,
            "stored": (before or {}).get("layout"), "stacked": self.stacked, "tell": self.progress,
        }  # fmt: skip

    def _before(self) -> dict[str, Any] | None:
        """What job.json says of this job; None where the folder has no answers of any.

        Raises VknnError that says what differs where it holds another one.
        """
        before = self.folder.job()
        if before is None:
            return None
        unlike = differences(before, self.document)
        if not unlike:
            self.stacked = dict(before.get("stacked", {}))
            return before
        if self.folder.parts():
            raise VknnError(
                f"{self.folder.text} holds another job: {'; '.join(unlike)}; give another folder, "
                "or --restart, which removes its answers"
            )
        return None

    def _done(self, before: Mapping[str, Any] | None) -> set[Any]:
        """Names of the records that have rows; what earlier runs did is counted."""
        parts = self.folder.parts()
        found: set[Any] = set()
        name = self.predictor.id
        if name is None:
            if parts:
                raise VknnError(
                    f"{self.folder.text} has answers, and without an id column nothing says which "
                    "records they are of: --restart begins anew, --id names a column"
                )
            self.outcome.notes.append(_NO_ID)
        for path in parts:
            table = self.folder.read_answers(path, [*([name] if name else []), ERROR])
            if name is not None:
                self._check_id(table.column(name).type)
                found.update(table.column(name).to_pylist())
            kinds = Counter(e["type"] for e in table.column(ERROR).to_pylist() if e is not None)
            self.outcome.errors.update(kinds)
            self.outcome.rows += table.num_rows
        suspects = self.folder.suspects()
        self.outcome.suspects = 0 if suspects is None else suspects.num_rows
        return found

    def _check_id(self, before: Any) -> None:
        """Check that ids are of a type like that of the answers, or none would be found there."""
        name = self.predictor.id
        own = self.schema.get(name or "")
        if own is not None and not is_of_kind(own, before):
            raise VknnError(
                f"{self.folder.text} has answers whose ids are {before}, and column {name!r} is "
                f"{own} now: give another folder, or --restart, which removes its answers"
            )

    def _engine(self, engine: str, address: str | None) -> str:
        """The engine that a job runs on."""
        own = self.predictor
        if engine == "local":
            if address is not None:
                raise InputError("an address is of a Ray cluster, and engine is 'local'")
            if own.per_device > 1 or (own.workers or 1) > 1:
                raise InputError("engine 'local' has one worker: engine 'ray' has several")
            return engine
        if engine == "ray" or address is not None:
            return "ray"
        if own.per_device > 1 or (own.workers or 1) > 1 or own.device == "gpu":
            return "ray"
        count = self.outcome.total
        large = sum(self.source.sizes) > LOCAL_BYTES if count is None else count > LOCAL_ROWS
        return "ray" if large and has_ray() else "local"

    def _is_left(self, done: set[Any]) -> bool:
        """Whether a record of the source has no row yet."""
        assert self.predictor.id is not None
        left = read(self.source, [self.predictor.id], 1024, lambda name: name not in done)
        return next(left, None) is not None

    def _remember(self, layout: JobLayout) -> None:
        """Note of the columns of answers and how they are computed, for later runs."""
        self.document["layout"] = layout.to_json() if layout.outputs else None
        self.document["stacked"] = self.stacked
        self._write("running")

    def _redo(self, done: set[Any], before: Mapping[str, Any] | None) -> None:
        """Suspect rows computed again, on another device, into files that replace the old ones."""
        suspects = self.folder.suspects()
        if suspects is None:
            self.outcome.notes.append("no rows are suspect")
            return
        if self.predictor.id is None:
            raise VknnError(
                "without an id column nothing says which records are suspect: --restart"
            )
        ids = set(suspects.column(self.predictor.id).to_pylist())
        found: list[Any] = []
        self.outcome.rows -= len(ids)
        self.outcome.errors -= errors_of(self.folder, suspects, self.predictor.id)
        again = replace(self._local(done - ids, before), only=ids, write=found.append)
        why = ""
        try:
            again.run(self._remember)
        except UnreadError as error:  # what lies behind the damage is missed below
            why = f" ({error})"
        wrong = set(suspects.column(DEVICE).to_pylist()) & set(self.outcome.devices)
        if wrong:
            raise VknnError(
                f"the rows are suspect because device {wrong.pop()} computed wrong: --device names "
                "another, such as numpy"
            )
        again_ids = {i for table in found for i in table.column(self.predictor.id).to_pylist()}
        if gone := sorted(map(str, ids - again_ids)):
            told = f"{len(gone)} suspect records are not in the source now: {gone[0]!r}"
            raise VknnError(told + why)
        replace_rows(self.folder, suspects, found, self.predictor.id)
        self.folder.clear_suspects()
        self.outcome.suspects = 0

    def _finish(self, state: str) -> Report:
        report = self.outcome.report(self.folder.text, state, self.engine)
        self._write(state, report)
        return report

    def _write(self, state: str, report: Report | None = None) -> None:
        told: dict[str, Any] = {} if report is None else {"report": json.loads(report.to_json())}
        before = self.folder.job() or {}
        names = ("layout", "stacked", "begun")
        kept: dict[str, Any] = {key: before[key] for key in names if key in before}
        own = {key: device.name for key, device in self.outcome.devices.items()}
        told["devices"] = {**before.get("devices", {}), **own}
        self.document = {"begun": time.time(), **kept, **self.document, "state": state, **told}
        self.folder.write_job(self.document)


def _named(predictor: Predictor, source: RecordSource) -> Predictor:
    """The predictor with the column that names the source's records. Raises InputError."""
    if source.kind == PARQUET:
        return predictor
    if predictor.id not in (None, source.id):
        raise InputError(
            f"there is no column {predictor.id!r} to name records: {source.kind} have {source.id!r}"
        )
    return replace(predictor, id=source.id)
