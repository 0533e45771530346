"""Steps of a job: what earlier runs left in its folder, the engine, the computing, the end."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.archives import UnreadError
from vknn.scale.doubles import drop_doubles
from vknn.scale.folder import Folder
from vknn.scale.layout import JobLayout
from vknn.scale.local import LocalRun
from vknn.scale.on_ray import RayRun, planned_workers
from vknn.scale.optional import has_ray
from vknn.scale.options import ERROR, NUMPY, Predictor
from vknn.scale.outcome import JobError, Outcome
from vknn.scale.parts import add_columns
from vknn.scale.plan import JobPlan, plan_of
from vknn.scale.ray_child import run_beside
from vknn.scale.reading import read
from vknn.scale.redo import drop_failed, failed_ids, redo_suspects
from vknn.scale.report import Report
from vknn.scale.same_job import differences, document_of
from vknn.scale.shares import ErrorBound
from vknn.scale.survey import Survey, is_of_kind
from vknn.scale.worker import Worker

#: Records above which "auto" takes Ray, where it is installed; bytes where nobody counted them.
LOCAL_ROWS, LOCAL_BYTES = 20_000, 1 << 31
DONE, STOPPED = "done", "stopped"
#: Which rows are computed again: those of devices that computed wrong, those with errors, or none.
SUSPECT, FAILED = "suspect", "errors"
AGAIN = (SUSPECT, FAILED, "")
_NO_ID = "the source has no id column: this job cannot be taken up again (--id names one)"


class JobSteps:
    """A job in its folder, the source known."""

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

    def run(self, engine: str, address: str | None, again: str, is_beside: bool = False) -> Report:
        """The job on the engine that fits; its report, which job.json keeps, too.

        Args:
            engine: "local", "ray" or "auto".
            address: Of a cluster.
            again: The rows that are computed again, of :data:`AGAIN`.
            is_beside: Whether a child joins Ray: it ends processes that are joined.
        """
        before = self._before()
        done = self._done(before)
        if self.predictor.id is not None and len(done) < self.outcome.rows:
            drop_doubles(self.folder, self.predictor.id)
            done = self._counted_anew(before)
        self.engine = self._engine(engine, address)
        if again == FAILED:
            done = self._drop_failed(before, done)
        if self.predictor.id is None:
            warnings.warn(_NO_ID, RuntimeWarning, stacklevel=4)
        if before is None and self.folder.job() is not None:  # of another one, which wrote nothing
            self.folder.clear()
        left = again == SUSPECT and (before is None or before.get("state") != DONE)
        try:
            if again == SUSPECT:
                redo_suspects(self._local(done, before), self._remember)
            elif done and not self._is_left(done):
                self.outcome.notes.append("every record has a row: nothing was left to do")
            elif self.engine == "ray":
                run = RayRun(**self._given(done, before), address=address)
                run_beside(run, self._remember) if is_beside else run.run(self._remember)
            else:
                self._local(done, before).run(self._remember)
            if again != SUSPECT:
                self._check_end()
        except (JobError, UnreadError) as error:
            told = error if isinstance(error, JobError) else JobError(str(error))
            told.report = self._finish(STOPPED)
            raise told from None
        except BaseException:
            with contextlib.suppress(VknnError):  # such as of a full disk: the first is told
                self._finish(STOPPED)
            raise
        if not self.outcome.rows and not left:
            self.outcome.note("the source has no records, and the answers have no file")
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
        # Where the process ends at opening the device, no older note is to say that it computed.
        self.folder.write_running({})
        if self.folder.parts():
            self._check_opens(self._engine(engine, address))
        self.folder.clear()

    def _check_opens(self, engine: str) -> None:
        """Check that the model can be computed, before answers go. Raises VknnError."""
        with Worker(self.predictor, None if engine == "local" else NUMPY) as worker:
            worker.layout(self.schema)

    def _drop_failed(self, before: Mapping[str, Any] | None, done: set[Any]) -> set[Any]:
        """Removal of rows with errors; names of the records that still have rows."""
        name = self.predictor.id
        if name is None:
            raise VknnError("without an id column nothing says which records failed: --restart")
        if not self.outcome.errors_now:
            self.outcome.note("no row has an error")
            return done
        self.folder.write_running({})  # as in clear
        self._check_opens(self.engine)
        gone, stay = drop_failed(self.folder, self.source, name)
        done = self._counted_anew(before)
        if gone:
            self.outcome.note(f"rows with errors that are computed again: {gone}")
        if stay:
            self.outcome.note(
                f"rows with errors that stay: {stay}, as they are suspect, or their records are "
                "not in the source now"
            )
        return done

    def _counted_anew(self, before: Mapping[str, Any] | None) -> set[Any]:
        """:meth:`_done`, where rows went since it was asked."""
        own = self.outcome
        self.outcome = Outcome(own.total, notes=own.notes, begin=own.begin, run=own.run)
        return self._done(before)

    def plan(self, engine: str, address: str | None, again: str) -> JobPlan:
        """The plan of :meth:`run`."""
        before = self._before()
        done = self._done(before)
        if again == FAILED and self.predictor.id is not None:
            failed = failed_ids(self.folder, self.predictor.id)
            done -= failed
            self.outcome.rows -= len(failed)
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
        is_told = self.document.get("layout") or (self.folder.job() or {}).get("layout")
        if layout.outputs and not is_told:
            add_columns(self.folder, layout)
        self.document["layout"] = layout.to_json() if layout.outputs else None
        self.document["stacked"] = self.stacked
        self._write("running")

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
