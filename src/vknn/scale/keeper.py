"""Keeper of a job that runs on many machines: attempts, deaths, checks and counts outside workers.

A worker's process may end at any record. What was tried, and where, is therefore known here, in a
process that computes nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from vknn.scale.attempts import Attempts, worker_of
from vknn.scale.killed import MOST_DEADLY_RECORDS, MOST_DEATHS, RETIRED
from vknn.scale.options import NUMPY
from vknn.scale.report import DeviceReport, WorkTimes
from vknn.scale.shares import ErrorBound
from vknn.scale.stacked import is_worth

#: So many processes of a worker, one after another, that had nothing under way end the job.
_MOST_IDLE_DEATHS = 10
#: Last batches of a worker whose counts are kept: those of the tasks that it has.
_MOST_COUNTED = 2048
_IDLE = (
    "{} processes of a worker ended, one after another, before they had a batch or behind one that "
    "was done: nothing says at which records"
)


@dataclass
class BatchProgress:
    """Account of what a worker did with a batch; sent to the keeper.

    Attributes:
        device: Where it was computed.
        rows: Records with outputs.
        errors: Records without, by type of error.
        busy: Seconds of computing.
        waiting: Seconds between the batch before it and this one.
        last: The last error, type and message.
        cold: Seconds from opening the model to the first answer; None but with a first batch.
        checks: Records that NumPy computed, too.
        largest: The largest error of these, as a multiple of what is allowed.
        memory: Bytes of memory that the worker had at most.
        worker: Name of the worker.
        pending: Checks that the worker has under way.
        upload: Seconds in which the host wrote inputs and submitted work.
        download: Seconds in which the host read outputs.
        device_memory: Bytes of device memory that the worker had at most.
        batch: Name of the batch, as answers have it.
        unsure: The first batch of the worker that no good check came behind.
    """

    device: str
    rows: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    busy: float = 0.0
    waiting: float = 0.0
    last: tuple[str, str] | None = None
    cold: float | None = None
    checks: int = 0
    largest: float = 0.0
    memory: int = 0
    worker: str = ""
    pending: int = 0
    upload: float = 0.0
    download: float = 0.0
    device_memory: int = 0
    batch: str = ""
    unsure: str = ""

    @property
    def times(self) -> WorkTimes:
        """Times of the worker."""
        return WorkTimes(self.busy, self.upload, self.download, self.device_memory)


class Keeper:
    """Memory of a job while it runs. All methods are short; one process calls at a time."""

    def __init__(
        self,
        bound: ErrorBound,
        total: int | None,
        rows: int,
        errors: int,
        stacked: Mapping[str, int] | None = None,
    ) -> None:
        self._bound, self._total = bound, total
        self._rows, self._before = rows, errors
        self._new_rows = 0
        self._errors: Counter[str] = Counter()
        self._attempts = Attempts()
        #: Worker -> its last batches, with rows and errors: Ray may give these again.
        self._counted: defaultdict[str, OrderedDict[str, tuple[int, dict[str, int]]]] = defaultdict(
            OrderedDict
        )
        #: Worker -> processes of it that ended, one after another, with nothing under way.
        self._idle: Counter[str] = Counter()
        self._deadly: defaultdict[str, set[str]] = defaultdict(set)
        self._devices: dict[str, DeviceReport] = {}
        self._suspect: list[tuple[str, str]] = []
        self._wrong: set[str] = set()
        #: Worker -> device and batch of what it computed since the last good check.
        self._unsure: defaultdict[str, deque[tuple[str, str]]] = defaultdict(deque)
        #: Device -> batches of workers that did not live to see one.
        self._orphans: defaultdict[str, list[str]] = defaultdict(list)
        self._pending: dict[str, int] = {}
        self._opening: dict[str, tuple[str, int]] = {}
        self._waiting, self._memory, self._failure = 0.0, 0, ""
        #: Device, for people -> records of one run; the worker that measures it, and has begun.
        self._stacked = dict(stacked or {})
        self._measuring: dict[str, str] = {}
        self._measured: set[str] = set()
        self._arrived: set[str] = set()
        #: Workers of which a process ended.
        self._ended: set[str] = set()
        #: Task that reads -> the process that has it.
        self._process_of: dict[str, str] = {}
        #: Worker -> its device.
        self._device_of: dict[str, str] = {}
        self._unread: dict[str, str] = {}
        self._notes: list[str] = []

    def arrive(self, worker: str, noted: Sequence[str] | None = None) -> dict[str, Any]:
        """A process of a worker begins. Tells whether another one of this worker ended before.

        ``again``: whether one did. ``failure``: why the job is to end, empty where it goes on.

        Args:
            worker: Its name, with which the keys of its batches begin.
            noted: Keys of the batches that the process that ended had under way, as it had noted
                on its machine; None: there is no note. Messages of what was begun and done may be
                lost, and the note is not.
        """
        for device, batch in self._unsure.pop(worker, ()):
            self._orphans[device].append(batch)
        again = worker in self._arrived
        self._arrived.add(worker)
        if again:
            self._ended.add(worker)
            self._died(worker, noted)
        return {"again": again, "failure": self._failure}

    def workers(self) -> list[str]:
        """The workers that began, by name."""
        return list(self._arrived)

    def under_way(self, workers: Sequence[str]) -> tuple[int, int]:
        """Records that were done, and batches that some workers have begun."""
        return self._rows, self._attempts.batches_under_way(workers)

    def opening(self, worker: str, device: str) -> int:
        """A worker is about to open a device. Tells how often its process ended as it did.

        Until :meth:`opened`: the first record is computed there, too.
        """
        before, count = self._opening.get(worker, ("", 0))
        count = count if before == device else 0
        self._opening[worker] = (device, count + 1)
        return count

    def meet(self, device: str, name: str, worker: str = "") -> None:
        """A worker opened a device, ``name`` for people."""
        self._device_of[worker] = device
        self._devices.setdefault(device, DeviceReport(name))

    def opened(self, worker: str) -> None:
        """A worker's device computes."""
        self._opening.pop(worker, None)

    def stacking(self, name: str, worker: str) -> int:
        """Records that one run computes on devices of a name; the job has one answer.

        0: the worker is to measure it. -1: another one does. A worker that asks twice ended while
        it measured: then it is 1.
        """
        if name not in self._stacked and is_worth(self._total):
            asked = self._measuring.setdefault(name, worker)
            if asked != worker:
                return -1
            if name not in self._measured:
                self._measured.add(name)
                return 0
        return self._stacked.setdefault(name, 1)

    def stacks(self, device: str, name: str, count: int) -> int:
        """A worker uses so many, or would; tells what the job's answer is, which is the first."""
        settled = self._stacked.setdefault(name, count)
        self._devices.setdefault(device, DeviceReport(name)).stacked = settled
        return settled

    def tell(
        self,
        ended: Sequence[tuple[str, BatchProgress]],
        begun: tuple[str, str, str] | None = None,
    ) -> dict[str, Any] | None:
        """A worker's message: batches that are done, and one that is begun, as of :meth:`begin`."""
        for key, progress in ended:
            self.end(key, progress)
        return None if begun is None else self.begin(*begun)

    def begin(self, device: str, name: str, key: str) -> dict[str, Any]:
        """A batch is begun on a device, ``name`` for people. Tells whether to compute it alone.

        ``alone``: record by record, as two processes ended with it. ``deaths``: how many did.
        ``retired``: why the device must not be used; then nothing is begun. ``wrong``: whether it
        computed something wrong. ``failure``: why the job is to end, empty where it goes on.
        """
        report = self._devices.setdefault(device, DeviceReport(name))
        deaths = self._attempts.begin(device, key)
        found = {"alone": deaths >= MOST_DEATHS, "deaths": deaths, "failure": self._failure}
        if report.retired:
            self._attempts.pause(key)
            wrong = device in self._wrong
            return {**found, "retired": report.retired, "wrong": wrong, "failure": ""}
        return {**found, "retired": None, "wrong": False}

    def begin_reading(self, key: str, process: str) -> int:
        """A task reads a batch. Tells how many processes ended as they did.

        ``process``: the name of the one that has the task now. Another one had it before if that
        ended, and Ray tries the task again.
        """
        task = worker_of(key)
        if self._process_of.setdefault(task, process) != process:
            self._process_of[task] = process
            self._died(task, None)
        return self._attempts.begin("", key)

    def end_reading(self, key: str) -> None:
        """A batch is read."""
        self._attempts.end("", key)

    def begin_record(self, device: str, key: str) -> int:
        """A record is begun by itself, as of :meth:`Attempts.begin_record`."""
        return self._attempts.begin_record(device, key)

    def deadly_devices(self, key: str) -> list[str]:
        """The devices on which processes ended with a record, each once, with names for people."""
        return [
            f"{device} ({self._devices[device].name})" if device in self._devices else device
            for device in self._attempts.died_on(key)
        ]

    def end_record(self, key: str) -> None:
        """A record that was begun by itself is done."""
        self._attempts.end_record(key)

    def end(self, key: str, progress: BatchProgress) -> None:
        """A batch is done."""
        self._attempts.end(progress.device, key)
        self._idle.pop(worker_of(key), None)
        report = self._devices.setdefault(progress.device, DeviceReport(progress.device))
        report.rows += progress.rows
        report.add(progress.times)
        report.checks += progress.checks
        self._note_unsure(progress)
        report.largest_error = max(report.largest_error, progress.largest)
        if progress.cold is not None:
            report.cold_seconds = max(report.cold_seconds, progress.cold)
        self._count(key, progress)
        self._waiting += progress.waiting
        self._memory = max(self._memory, progress.memory)
        self._pending[progress.worker] = progress.pending
        failed = self._before + sum(self._errors.values())
        if failed > self._bound.most(self._total or self._rows):
            kind, text = progress.last or ("", "")
            self._failure = self._failure or (
                f"{failed} of {self._rows} records could not be computed, and "
                f"errors={self._bound} are allowed; the last: {kind}: {text}"
            )

    def retire(self, device: str, reason: str, batches: Sequence[str] | None = None) -> None:
        """A device is not to be used any more; NumPy always is.

        Args:
            device: The device.
            reason: Why; an earlier reason stays.
            batches: What it wrote that may be wrong; None: what it computed is not doubted.
        """
        if device == NUMPY:
            return
        report = self._devices.setdefault(device, DeviceReport(device))
        report.retired = report.retired or reason
        if batches is not None:
            self._wrong.add(device)
            self.suspect(device, [*self._orphans.pop(device, ()), *batches])

    def suspect(self, device: str, batches: Sequence[str]) -> None:
        """Note of what a device wrote that may be wrong."""
        self._suspect += [(device, batch) for batch in batches]

    def leave(self, worker: str, device: str) -> bool:
        """A worker ends, whose checks are done. Tells whether its device computed wrong."""
        self._pending.pop(worker, None)
        self._unsure.pop(worker, None)
        return device in self._wrong

    def unread(self, problems: Mapping[str, str]) -> None:
        """Note of files that could not be read to their ends, and why."""
        self._unread.update(problems)

    def fail(self, text: str) -> None:
        """Note of why the job is to end."""
        self._failure = self._failure or text

    def note(self, text: str) -> None:
        """Note that the report is to have."""
        self._notes.append(text)

    def retired(self) -> dict[str, str]:
        """The devices that are not to be used, and why."""
        return {name: d.retired for name, d in self._devices.items() if d.retired}

    def state(self) -> dict[str, Any]:
        """All that a report tells."""
        return {
            "rows": self._rows,
            "new_rows": self._new_rows,
            "errors": dict(+self._errors),
            "devices": {name: asdict(device) for name, device in self._devices.items()},
            "suspect": list(self._suspect),
            "waiting": self._waiting,
            "memory": self._memory,
            "failure": self._failure,
            "pending": sum(self._pending.values()),
            "stacked": dict(self._stacked),
            "unread": dict(self._unread),
            "notes": list(self._notes),
        }

    def _count(self, key: str, progress: BatchProgress) -> None:
        """Count of a batch's records, once: behind the end of a process batches come again.

        Without that, two of one key are two: records without names may be equal.
        """
        worker = worker_of(key)
        own = self._counted[worker]
        before, errors = own.pop(key, (0, {})) if worker in self._ended else (0, {})
        count = progress.rows + sum(progress.errors.values())
        self._rows += count - before
        self._new_rows += count - before
        self._errors.subtract(errors)
        self._errors.update(progress.errors)
        own[key] = count, progress.errors
        if len(own) > _MOST_COUNTED:
            own.popitem(last=False)

    def _note_unsure(self, progress: BatchProgress) -> None:
        """Note of a batch that may turn out to be wrong, and of good checks of those before it."""
        if progress.checks:
            self._orphans.pop(progress.device, None)
        if progress.batch:
            own = self._unsure[progress.worker]
            own.append((progress.device, progress.batch))
            while own and own[0][1] != progress.unsure:
                own.popleft()

    def _died(self, worker: str, noted: Sequence[str] | None) -> None:
        """Note of the end of a worker's process, and of what is to blame for it."""
        blamed = self._attempts.blame(worker, noted, self._device_of.get(worker, ""))
        if blamed is None:
            self._idle[worker] += worker not in self._opening
            if self._idle[worker] >= _MOST_IDLE_DEATHS:
                self.fail(_IDLE.format(self._idle[worker]))
            return
        device, record = blamed
        used = device or self._device_of.get(worker, "")
        if used in self._devices:
            self._devices[used].deaths += 1
        if record is not None and device:
            self._deadly[device].add(record)
            if len(self._deadly[device]) >= MOST_DEADLY_RECORDS:
                self.retire(device, RETIRED)
