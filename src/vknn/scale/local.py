"""Local engine: a job in this process, on one device, without Ray."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from vknn.batching import STACKED
from vknn.errors import DeviceError, VknnError
from vknn.scale.archives import UnreadError, readable
from vknn.scale.checking import Checker
from vknn.scale.device_checks import DeviceChecks
from vknn.scale.first_record import FirstRecord, first_record, records_of
from vknn.scale.job_run import NONE_COMPUTED, TELL_SECONDS, JobRun
from vknn.scale.killed import MOST_DEADLY_RECORDS, RETIRED, Killed
from vknn.scale.layout import JobLayout, is_known
from vknn.scale.outcome import JobError, last_error
from vknn.scale.parts import PartWriter, written_by
from vknn.scale.read_ahead import read_ahead
from vknn.scale.reading import Rows, read
from vknn.scale.records import Record
from vknn.scale.report import DeviceReport
from vknn.scale.sources import check_in_all
from vknn.scale.stacked import filled_by, is_worth
from vknn.scale.worker import Worker, device_name

#: Batches that are read ahead of the one that is computed.
_AHEAD = 2
#: Seconds after which a job is told how far it is, be it within a batch.
_SLOW_BATCH_SECONDS = 5.0


@dataclass
class RowBatch:
    """Rows of a source with the records that they are made into.

    Attributes:
        rows: The rows.
        ids: Names of the records; their numbers where the source has none.
        records: The records, some of them still being decoded.
        name: Name of the batch.
        done: Cells and errors of the records that are done.
    """

    rows: Rows
    ids: list[Any]
    records: list[Future[Record] | Record]
    name: str
    done: list[tuple[dict[str, Any], dict[str, Any] | None]] = field(default_factory=list)


@dataclass
class LocalRun(JobRun):
    """A run of a job in this process.

    Attributes:
        only: Names of the records that are wanted; None: all that are not done.
        write: Takes tables of answers; by default they become Parquet files.
    """

    only: set[Any] | None = None
    write: Callable[[Any], None] | None = None

    def run(self, remember: Callable[[JobLayout], None]) -> None:
        """Computing of all records that are left; ``remember`` is told the columns of answers.

        Raises JobError where more records fail than may, where the device disagrees with NumPy, or
        where too many records ended processes on it.
        """
        begin = time.perf_counter()
        with contextlib.ExitStack() as undo:
            worker = undo.enter_context(Worker(self.predictor))
            device = DeviceReport(device_name(worker))
            self.outcome.devices[worker.device] = device
            has_names = self.predictor.id is not None
            killed = Killed(self.folder, worker.device, has_names, self.outcome.run)
            if killed.deadly:
                device.retired = RETIRED
                raise JobError(_retired(device.name, killed.deadly))
            pool = undo.enter_context(ThreadPoolExecutor(os.cpu_count() or 1, "vknn-decode"))
            checker = undo.enter_context(contextlib.closing(Checker(self.predictor)))
            layout = worker.layout(self.schema)
            check_in_all(self.source, layout.read)
            if self.stored is not None:
                layout = layout.outputs_of(self.stored)
            else:
                found = self.sample(worker, layout, killed)
                layout = layout if found is None else found.layout
            if self.stored is None:
                remember(layout)
            name, measure = device.name, partial(self._measured, worker, layout, killed, pool)
            device.stacked = self._records_of_run(name, measure, partial(remember, layout))
            worker.stacked = device.stacked
            checks = DeviceChecks(checker, worker, self.predictor)
            undo.callback(checks.close)
            # The first check is over before anything is written; others come only with a share.
            is_sampled = bool(self.predictor.checked)
            writer = PartWriter(self.folder, checks.confirm, self.write, is_sampled)
            try:
                self._carry_out(worker, layout, killed, checks, writer, pool)
            finally:
                if checks.wrong:
                    self._suspect(writer.suspects(checks.trusted))
                if checks.wrong and checks.trusted < 0:
                    self._suspect(written_by(self.folder, worker.device, killed.unsure))
                self.outcome.uncount(writer.drop())  # what is not written is computed again
                self._count(device, worker, checks, writer, begin)

    def _carry_out(
        self, worker: Worker, layout: JobLayout, killed: Killed, checks: DeviceChecks,
        writer: PartWriter, pool: ThreadPoolExecutor,
    ) -> None:  # fmt: skip
        """Computing and writing of all records; where that ends early, of what was computed."""
        try:
            self._phases(worker, layout, killed, checks, writer, pool)
            checks.finish()
            writer.flush()
            killed.clear()
        except JobError:
            raise
        except UnreadError:
            writer.flush()  # raises where a check that is under way says that the device errs
            raise
        except BaseException as error:
            with contextlib.suppress(Exception):
                writer.flush()
            with contextlib.suppress(Exception):
                if isinstance(error, KeyboardInterrupt):  # which is no record's fault
                    killed.begin([])
            raise

    def _phases(
        self, worker: Worker, layout: JobLayout, killed: Killed, checks: DeviceChecks,
        writer: PartWriter, pool: ThreadPoolExecutor,
    ) -> None:  # fmt: skip
        """First what was under way when a process ended, record by record; then the rest."""
        killed.begin([])
        if killed.suspicious:
            alone = self._batches(layout, pool, killed.is_suspicious, 1, killed)
            for batch in readable(alone):
                if killed.is_deadly(batch.ids[0]):
                    row = killed.error_row(batch.ids[0])
                    self._finish(worker, layout, batch, [({}, row)], writer)
                    continue
                batch.records = [_made(record) for record in batch.records]
                killed.begin(batch.ids)
                self._computed(worker, layout, [batch], killed, checks, writer)
            writer.flush()  # or a process that ends later would know nothing of these
            killed.forget()
        batches = self._batches(layout, pool, lambda _: True, self.predictor.batch_size, killed)
        with contextlib.closing(read_ahead(batches, _AHEAD)) as ahead:
            self._computed(worker, layout, ahead, killed, checks, writer)

    def _records_of_run(
        self, device: str, measure: Callable[[], int], remember: Callable[[], None]
    ) -> int:
        """Records that one run computes: as the user says, as was measured before, or now."""
        if self.predictor.stacked is not None:
            return self.predictor.stacked
        if device not in self.stacked:
            # Until it is measured: a process that ends at it is followed by one that does not.
            self.stacked[device] = 1
            remember()
            if is_worth(self.outcome.total):
                self.stacked[device] = measure()
                remember()
        return self.stacked[device]

    def _measured(
        self, worker: Worker, layout: JobLayout, killed: Killed, pool: ThreadPoolExecutor
    ) -> int:
        """How many records one run is to compute, by the first batch."""
        size = self.predictor.batch_size
        batches = self._batches(
            layout, pool, lambda name: not killed.is_suspicious(name), size, killed
        )
        batch = next(readable(batches), None)
        if batch is None:
            return 1
        records = [_made(record) for record in batch.records]
        fill = filled_by([r for r in records if r.error is None], min(STACKED, size))
        for name, record in zip(batch.ids, records, strict=True):
            if record.error is None:
                killed.begin([name])
                try:
                    return worker.measure_stacked(record, fill)
                except DeviceError:
                    raise
                except VknnError:  # the record's own; it will be in its row
                    continue
        return 1

    def _batches(
        self,
        layout: JobLayout,
        pool: ThreadPoolExecutor,
        wanted: Callable[[Any], bool],
        size: int,
        killed: Killed,
    ) -> Iterator[RowBatch]:
        """Batches of the records that are left and wanted, whose decoding has begun.

        ``killed``: notes them before that; a record that ends processes is not decoded.
        """

        def is_left(name: Any) -> bool:
            if self.only is not None and name not in self.only:
                return False
            return name not in self.done and wanted(name)

        has_id = self.predictor.id is not None
        kept = is_left if has_id else None
        found = read(self.source, layout.read, size, kept, self.outcome.note)
        for number, rows in enumerate(found):
            name = f"{self.outcome.run}-{len(rows)}-{number}"
            ids = rows.table.column(self.predictor.id).to_pylist() if has_id else []
            batch = RowBatch(rows, ids or list(range(len(rows))), [], name)
            if not any(map(killed.is_deadly, ids)):
                killed.add(batch.ids)
                batch.records = records_of(layout, rows, pool)
            yield batch

    def _computed(
        self,
        worker: Worker,
        layout: JobLayout,
        batches: Iterable[RowBatch],
        killed: Killed,
        checks: DeviceChecks,
        writer: PartWriter,
    ) -> None:
        """Computing of batches; each is written once all of its records are done."""
        under_way: deque[RowBatch] = deque()
        waited = 0.0

        def records() -> Iterator[Record]:
            nonlocal waited
            begin = time.perf_counter()
            for batch in batches:
                under_way.append(batch)
                for record in batch.records:
                    found = _made(record)
                    waited += time.perf_counter() - begin
                    yield found
                    begin = time.perf_counter()
            waited += time.perf_counter() - begin

        told = time.perf_counter()
        for number, (record, found) in enumerate(worker.results(records()), writer.rows):
            batch = under_way[0]
            name = batch.ids[len(batch.done)]
            batch.done.append(worker.row(layout, record, found))
            if batch.done[-1][1] is None:
                checks.add(name, number, record, found)
                writer.trust(checks.trusted)
                if checks.trusted >= 0:
                    killed.unsure = []
            if is_whole := len(batch.done) == len(batch.records):
                under_way.popleft()
                self._finish(worker, layout, batch, batch.done, writer)
                killed.end(len(batch.ids))
            patience = TELL_SECONDS if is_whole else _SLOW_BATCH_SECONDS
            if self.tell is not None and time.perf_counter() > told + patience:
                told = time.perf_counter()
                self.tell(self.outcome)
        killed.begin([])
        worker.idle(waited)
        self.outcome.waiting += waited

    def _finish(
        self,
        worker: Worker,
        layout: JobLayout,
        batch: RowBatch,
        done: Sequence[tuple[dict[str, Any], dict[str, Any] | None]],
        writer: PartWriter,
    ) -> None:
        """Writing of a batch whose records are done, and counting. Raises JobError."""
        cells, errors = [row for row, _ in done], [error for _, error in done]
        names = [worker.device] * len(done)
        table = layout.table(batch.rows.table, cells, errors, names, batch.name)
        good = sum(error is None for error in errors)
        self.outcome.devices[worker.device].rows += good
        self.outcome.count(errors)
        self.done.update(batch.ids if self.predictor.id is not None else ())
        writer.add(table)
        if text := self.outcome.excess(self.bound):
            writer.flush()
            last = last_error(errors, batch.ids if self.predictor.id is not None else ())
            raise JobError(f"{text}; the last: {': '.join(last)}" if last else text)

    def sample(
        self, worker: Worker, layout: JobLayout, killed: Killed | None = None
    ) -> FirstRecord | None:
        """The first record that can be computed, and the layout with its outputs.

        None where there is none; why the first one cannot is noted then.
        """

        begin = None if killed is None else killed.begin_first
        is_fixed = all(is_known(column, self.schema, self.source) for column in layout.inputs)
        found = first_record(worker, layout, self._singly(layout, killed), is_fixed, begin)
        if isinstance(found, Exception):
            self.outcome.notes.append(NONE_COMPUTED.format(found))
        return found if isinstance(found, FirstRecord) else None

    def _singly(self, layout: JobLayout, killed: Killed | None) -> Iterator[Rows]:
        """The records one by one, those at which a process ended behind the others."""
        if killed is None or not killed.suspicious:
            yield from read(self.source, layout.read, 1)
            return
        others = read(self.source, layout.read, 1, lambda n: not killed.is_suspicious(n))
        yield from readable(others)
        yield from read(
            self.source, layout.read, 1,
            lambda n: killed.is_suspicious(n) and not killed.is_deadly(n),
        )  # fmt: skip

    def _suspect(self, table: Any) -> None:
        """Note of the rows that the device wrote since it last agreed with NumPy."""
        if table is not None:
            self.outcome.suspects += self.folder.add_suspects(table)

    def _count(
        self, device: DeviceReport, worker: Worker, checks: DeviceChecks, writer: PartWriter,
        begin: float,
    ) -> None:  # fmt: skip
        device.add(worker.times())
        if worker.first is not None:
            device.cold_seconds = worker.first - begin
        device.checks, device.largest_error = checks.count, checks.largest
        device.retired = checks.wrong or None
        self.outcome.writing += writer.seconds


def _made(record: Future[Record] | Record) -> Record:
    """A record, once it is decoded."""
    return record.result() if isinstance(record, Future) else record


def _retired(device: str, records: Sequence[str]) -> str:
    """Text about a device on which too many records ended processes."""
    told = ", ".join(repr(name) for name in records[-MOST_DEADLY_RECORDS:])
    return (
        f"{device} is not used any more: {RETIRED} on it, the last of them {told:.300}; "
        "go on with another device, or with numpy: --device"
    )
