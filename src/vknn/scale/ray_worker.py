"""Worker of Ray Data: the class whose actors compute batches, one on each device."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vknn import __version__
from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError, VknnError
from vknn.host_memory import peak_memory
from vknn.runtime import devices
from vknn.scale.accelerators import assigned_device
from vknn.scale.attempt_note import AttemptNote
from vknn.scale.attempts import MOST_BATCH_DEATHS
from vknn.scale.checking import WrongDeviceError
from vknn.scale.exit_note import ExitNote
from vknn.scale.idle_time import IdleTime
from vknn.scale.keeper import BatchProgress
from vknn.scale.keeper_link import KeeperLink
from vknn.scale.killed import MOST_DEATHS, died_row
from vknn.scale.layout import JobLayout
from vknn.scale.model_files import ModelCopy
from vknn.scale.optional import ray_module
from vknn.scale.options import NUMPY, Predictor
from vknn.scale.outcome import JobError, last_error
from vknn.scale.portions import USUAL, Portions
from vknn.scale.ray_batch import BatchReader, Cells, RayBatch, hopeless
from vknn.scale.ray_metrics import WorkerMetrics
from vknn.scale.records import Record
from vknn.scale.worker import Worker, device_name
from vknn.scale.worker_checks import WorkerChecks

#: How a worker finds its device: of Ray's GPUs, by a lease, or as the predictor says.
GPU, LEASE, OWN = "gpu", "lease", "own"
#: Checks that may be under way at once.
_MOST_CHECKS = 4
#: A device is not opened any more once so many processes ended, one after another, as they did.
_MOST_OPENINGS = 3
#: Seconds in which a worker measures how many records one run is to compute.
_STACKED_SECONDS = 60.0
#: Seconds for the machine to notice that a process ended whose device another one waits for.
_LEASE_SECONDS = 20.0
#: Those of this process.
_here: weakref.WeakSet[BatchActor] = weakref.WeakSet()


@dataclass(frozen=True)
class Setup:
    """All that a worker needs; sent to each.

    Attributes:
        predictor: What is computed.
        layout: What goes in and out.
        copy: The model's files.
        mode: "gpu", "lease" or "own".
        keeper: Handle of the keeper's actor.
        expected: Ray's function that computes a record with NumPy, for the copy of the model.
        example: Inputs of the first record and its outputs by NumPy (None: it is not checked);
            None where nothing is known of it.
        portions: How many records are handed on together.
        version: Version of vknn that the job was begun with.
    """

    predictor: Predictor
    layout: JobLayout
    copy: ModelCopy
    mode: str
    keeper: Any
    expected: Callable[[dict[str, Any]], Any] | None = None
    example: tuple[dict[str, Any], dict[str, Any] | None] | None = None
    portions: Portions = USUAL
    version: str = __version__


class BatchActor:
    """Callable that computes Arrow tables of records, for ``Dataset.map_batches``."""

    def __init__(self, setup: Setup) -> None:
        if setup.version != __version__:
            raise VknnError(
                f"machine {platform.node()} has vknn {__version__}, and the job is of vknn "
                f"{setup.version}: install the same everywhere"
            )
        self._setup, self._ray = setup, ray_module()
        # Held by the thread that uses the device, and what tells in which order batches are.
        self._turn = threading.RLock()
        self._keeper = KeeperLink(setup.keeper)
        self._begin: float | None = time.perf_counter()
        self._predictor = setup.copy.predictor(setup.predictor)
        self._reader = BatchReader(setup.layout, self._predictor.id)
        self._checks = WorkerChecks(self._ray, self._predictor, setup.expected, self._keeper)
        self._number = 0
        self._name = f"{os.getpid():x}-{time.time_ns() & 0xFFFFFFFF:08x}"
        # Stays the same when Ray begins the process anew, and gets the same batch again.
        self._actor = self._ray.get_runtime_context().get_actor_id() or self._name
        self._metrics = WorkerMetrics()
        self._note, self._exit = AttemptNote(self._actor), ExitNote(self._actor)
        # A process that follows one which ended waits for the keeper before it computes: some of
        # its batches were tried. Of the first one none was, and its note is enough.
        arrived = self._keeper.ask("arrive", self._actor, self._note.taken())
        if arrived["failure"]:
            raise JobError(arrived["failure"])
        self._waits = bool(arrived["again"])
        self._worker = self._opened()
        self._idle = IdleTime()
        _here.add(self)

    def __call__(self, table: Any) -> Any:
        """The answers of a table of records. Two threads may be here, each with a table.

        One reads records, or makes the table of answers, while the other computes. In a process
        that follows one which ended, one at a time does all of it: if it ends as well, it is the
        batch that is noted at which it did.
        """
        careful = self._waits
        whole = self._turn if careful else contextlib.nullcontext()
        with self._idle.batch() as waited, whole:
            batch = self._reader.batch(table, self._actor)
            if not careful:
                self._begin_note(batch.key)
                self._reader.read(batch)
            with self._turn:
                self._attempt(batch)
                made = self._reader.answers(batch) if careful else None
                self._checks.unsure.append(batch.name)
                self._end(batch, waited)
            if made is None:
                made = self._reader.answers(batch)
                self._note.end(batch.key)
            return made

    def finish(self) -> None:
        """Wait for the checks that are under way, and tell what came of them."""
        with self._turn:
            with contextlib.suppress(WrongDeviceError):
                self._checks.collect(self._worker, 0)
            self._end(RayBatch(), 0.0)
            self._keeper.flush()
            if self._keeper.ask("leave", self._actor, self._worker.device):
                self._keeper.ask("suspect", self._worker.device, self._checks.unsure)

    def __del__(self) -> None:
        """The end; Ray Data calls this when a pool ends."""
        with contextlib.suppress(Exception):
            self.finish()
        with contextlib.suppress(Exception):
            self._keeper.close()
            self._note.close()
            self._exit.close()
        with contextlib.suppress(Exception):
            self._worker.close()

    def _begin_note(self, key: str) -> None:
        """Note of a batch on this machine; where none can be the keeper is waited for."""
        if not self._note.begin(key):
            self._note.close()
            self._waits = True

    def _attempt(self, batch: RayBatch) -> None:
        """Computing of a batch, of which the keeper is told; it is this thread's turn."""
        self._number += 1
        batch.name = f"{self._name}-{self._number}"
        told, alone = self._sent_begin(batch.key, self._waits), False
        if self._waits:
            alone, told = self._may_begin(batch, told), None
        while True:
            worker, before = self._worker, self._worker.times()
            batch.device = worker.device
            try:
                self._compute(batch, alone)
                self._checks.collect(worker, _MOST_CHECKS)
                if told is not None:
                    alone, told = self._may_begin(batch, told), None
                if worker is self._worker:
                    break
            except WrongDeviceError:
                self._move()
                alone = self._may_begin(batch, self._sent_begin(batch.key, at_once=True))
                told = None
        batch.times = worker.times().since(before)
        batch.records = None  # while answers are made, those of the next batch take memory, too

    def _sent_begin(self, key: str, at_once: bool) -> Any:
        """Reference of the keeper's answer; None where it need not be asked yet."""
        return self._keeper.begin(self._worker.device, device_name(self._worker), key, at_once)

    def _may_begin(self, batch: RayBatch, told: Any) -> bool:
        """Whether the batch is to be computed record by record; another device is taken if need be.

        A worker that was told to leave its device and has no other computes with NumPy. Raises
        JobError where the job is to end. ``told``: reference of the keeper's answer.
        """
        while True:
            found = self._keeper.answer(told)
            if found["failure"]:
                raise JobError(found["failure"])
            if found["deaths"] >= MOST_BATCH_DEATHS:
                has_names = self._predictor.id is not None
                text = hopeless(batch.names, has_names, found["deaths"], self._exit.last)
                self._keeper.ask("fail", text)
                raise JobError(text)
            if found["retired"] is None:
                return bool(found["alone"])
            if found["wrong"]:  # as another worker found that shares it
                self._keeper.ask("suspect", self._worker.device, self._checks.unsure)
            self._move()
            told = self._sent_begin(batch.key, at_once=True)

    def _compute(self, batch: RayBatch, alone: bool) -> None:
        """Cells of a batch's records. ``alone``: computed one by one, with tables of their own."""
        batch.cells, batch.tables = [], [] if alone else None
        try:
            if alone:
                self._compute_singly(batch)
                return
            records = self._reader.read(batch) if batch.records is None else batch.records
            for name, (record, one) in zip(batch.names, self._worker.results(records), strict=True):
                batch.cells.append(self._cell(name, record, one, batch.name))
        except (DeviceLostError, DeviceTimeoutError) as error:
            self._exit.say(" ".join(f"{type(error).__name__}: {error}".split()))
            # Opened anew in vain. Ray restarts the actor, if need be elsewhere, and the keeper
            # counts; an error would end the job.
            os._exit(1)

    def _compute_singly(self, batch: RayBatch) -> None:
        """Each record read, computed and made a table of, of which the keeper knows all the time.

        One at which two processes ended becomes an error.
        """
        for number, (name, row) in enumerate(
            zip(batch.names, self._reader.rows(batch), strict=True)
        ):
            key = f"{batch.key}:{number}"
            deaths = self._keeper.ask("begin_record", "", key)
            if deaths >= MOST_DEATHS:
                on = self._keeper.ask("deadly_devices", key)
                batch.cells.append(({}, died_row(deaths, self._exit.last, " and ".join(on))))
            else:
                record = self._reader.record(row)
                self._keeper.ask("begin_record", batch.device, key)
                for made, one in self._worker.results([record]):
                    batch.cells.append(self._cell(name, made, one, batch.name))
                self._keeper.ask("begin_record", "", key)
            self._reader.add_answer(batch)
            self._keeper.ask("end_record", key)

    def _cell(self, name: Any, record: Record, found: Any, batch: str) -> Cells:
        """Cells of a row and its error; a sample is sent to be computed with NumPy."""
        row = self._worker.row(self._setup.layout, record, found)
        if row[1] is None:
            self._checks.add(self._worker, name, record, found, batch)
        return row

    def _opened(self) -> Worker:
        """A worker on a device that may be used and computes right."""
        worker = self._worker = self._opened_and_tried()
        self._keeper.ask("opened", self._actor)
        return worker

    def _opened_and_tried(self) -> Worker:
        while True:
            worker = self._worker = self._opened_once()
            if self._setup.example is None:
                return worker
            feeds, expected = self._setup.example
            try:
                if expected is not None and worker.session.device is not None:
                    self._checks.compare(worker, feeds, worker.answer(feeds), expected)
                worker.stacked = self._stacked(worker, feeds)
                return worker
            except WrongDeviceError:
                worker.close()
            except (DeviceLostError, DeviceTimeoutError) as error:
                self._keeper.ask("retire", worker.device, f"its first record: {error}")
                worker.close()

    def _stacked(self, worker: Worker, feeds: dict[str, Any]) -> int:
        """Records that one run computes: the same on all devices of a kind, and in later runs."""
        if self._predictor.stacked is not None:
            return self._predictor.stacked
        name, until = device_name(worker), time.perf_counter() + _STACKED_SECONDS
        while (
            count := self._keeper.ask("stacking", name, self._actor)
        ) < 0 and time.perf_counter() < until:
            time.sleep(0.2)
        if count == 0:
            try:
                count = worker.measure_stacked(Record(feeds))
            except (DeviceLostError, DeviceTimeoutError):
                raise
            except VknnError:  # of this record
                count = 1
        return int(self._keeper.ask("stacks", worker.device, name, max(1, count)))

    def _opened_once(self) -> Worker:
        """A worker on a device that may be used. Drivers may end the process that opens one."""
        while True:
            retired = set(self._keeper.ask("retired"))
            selector = self._device(retired)
            deaths = self._keeper.ask("opening", self._actor, selector)
            if deaths >= _MOST_OPENINGS:
                reason = f"{deaths} processes ended when they opened the model on it"
                if selector == NUMPY:
                    raise JobError(f"NumPy on machine {platform.node()}: {reason}")
                self._keeper.ask("retire", selector, reason)
                continue
            worker = Worker(self._predictor, selector)
            if worker.device in retired:
                worker.close()
                worker = Worker(self._predictor, NUMPY)
            self._keeper.ask("meet", worker.device, device_name(worker), self._actor)
            return worker

    def _move(self) -> None:
        """Change to another device; what was not compared yet was computed by the old one."""
        self._checks.clear()
        self._worker.close()
        self._worker = self._opened()

    def _device(self, retired: set[str]) -> str:
        """The selector of the device to use: NumPy where those of this machine must not be used."""
        if self._setup.mode == LEASE:
            return self._leased(retired)
        chosen = self._predictor.device
        if self._setup.mode == GPU:
            ids = self._ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
            try:
                chosen = assigned_device(ids, devices())
            except DeviceError as error:
                raise DeviceError(f"machine {platform.node()}: {error}") from None
        return NUMPY if chosen in retired else chosen

    def _leased(self, retired: set[str]) -> str:
        """A device of this machine that is free; one may be free once a process is seen to end."""
        node = self._ray.get_runtime_context().get_node_id()
        lease = self._keeper.ask("lease", node)
        until = time.perf_counter() + _LEASE_SECONDS
        while True:
            try:
                return str(self._ray.get(lease.take.remote(os.getpid(), sorted(retired))))
            except self._ray.exceptions.RayActorError:
                os._exit(1)  # the machine goes: Ray begins the worker anew on another one
            except DeviceError as error:
                if retired:
                    return NUMPY
                if time.perf_counter() > until:
                    raise DeviceError(f"machine {platform.node()}: {error}") from None
            time.sleep(0.5)

    def _end(self, batch: RayBatch, waited: float) -> None:
        """Note of a batch that is done."""
        cells, times = batch.cells, batch.times
        errors, unsure = [error for _, error in cells], self._checks.unsure
        kinds = Counter(error["type"] for error in errors if error is not None)
        first = self._worker.first
        cold = None
        if self._begin is not None and first is not None:
            cold, self._begin = first - self._begin, None
        progress = BatchProgress(
            self._worker.device, len(cells) - kinds.total(), dict(kinds), times.busy, waited,
            last_error(errors, () if self._predictor.id is None else batch.names), cold,
            self._checks.taken(), self._checks.largest, peak_memory(), self._actor,
            self._checks.pending, times.upload, times.download, times.memory,
            unsure[-1] if cells else "", unsure[0] if unsure else "",
        )  # fmt: skip
        self._metrics.count(progress)
        self._keeper.end(batch.key, progress)


def finish_checks(_: object) -> None:
    """:meth:`BatchActor.finish`, for an actor of Ray's to be called with."""
    for actor in list(_here):
        actor.finish()
