"""Worker of Ray Data: the class whose actors compute batches, one on each device."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vknn import __version__
from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError, VknnError
from vknn.host_memory import peak_memory
from vknn.runtime import devices
from vknn.scale.accelerators import assigned_device
from vknn.scale.attempt_note import AttemptNote
from vknn.scale.checking import WrongDeviceError
from vknn.scale.exit_note import ExitNote
from vknn.scale.keeper import BatchProgress
from vknn.scale.keeper_link import KeeperLink
from vknn.scale.killed import MOST_DEATHS, died_row
from vknn.scale.layout import JobLayout
from vknn.scale.model_files import ModelCopy
from vknn.scale.optional import ray_module
from vknn.scale.options import NUMPY, Predictor
from vknn.scale.outcome import JobError, last_error
from vknn.scale.packed import is_packed, unpacked
from vknn.scale.portions import USUAL, Portions
from vknn.scale.ray_metrics import WorkerMetrics
from vknn.scale.records import Record, cells_of, record_of
from vknn.scale.report import WorkTimes
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
_Cells = list[tuple[dict[str, Any], dict[str, Any] | None]]


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
        self._keeper = KeeperLink(setup.keeper)
        self._begin: float | None = time.perf_counter()
        self._predictor = setup.copy.predictor(setup.predictor)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "vknn-decode")
        self._checks = WorkerChecks(self._ray, self._predictor, setup.expected, self._keeper)
        self._number, self._ended = 0, time.perf_counter()
        self._name = f"{os.getpid():x}-{time.time_ns() & 0xFFFFFFFF:08x}"
        # Stays the same when Ray begins the process anew, and gets the same batch again.
        self._actor = self._ray.get_runtime_context().get_actor_id() or self._name
        self._metrics = WorkerMetrics()
        self._note, self._exit = AttemptNote(self._actor), ExitNote(self._actor)
        # A process that follows one which ended waits for the keeper before it computes: some of
        # its batches were tried. Of the first one none was, and its note is enough.
        self._waits = bool(self._keeper.ask("arrive", self._actor, self._note.taken()))
        self._worker = self._opened()
        _here.add(self)

    def __call__(self, table: Any) -> Any:
        """The answers of a table of records."""
        waited = time.perf_counter() - self._ended
        names = self._names(table)
        key = f"{self._actor}:{self._digest(table, names)}"
        self._number += 1
        batch = f"{self._name}-{self._number}"
        told, alone = self._sent_begin(key), False  # while records are read
        records = self._records(table)
        if self._waits:
            alone, told = self._may_begin(key, told), None
        while True:
            worker, before = self._worker, self._worker.times()
            try:
                cells = self._computed(records, names, batch, key if alone else "")
                self._checks.collect(worker, _MOST_CHECKS)
                if told is not None:
                    alone, told = self._may_begin(key, told), None
                if worker is self._worker:
                    break
            except WrongDeviceError:
                self._move()
                alone, told = self._may_begin(key, self._sent_begin(key, at_once=True)), None
        device = self._worker.device
        made = self._setup.layout.table(
            table, [row for row, _ in cells], [e for _, e in cells], [device] * len(cells), batch
        )
        self._checks.unsure.append(batch)
        self._end(key, cells, self._worker.times().since(before), waited, names)
        self._note.clear()
        self._ended = time.perf_counter()
        return made

    def finish(self) -> None:
        """Wait for the checks that are under way, and tell what came of them."""
        with contextlib.suppress(WrongDeviceError):
            self._checks.collect(self._worker, 0)
        self._end("", [], WorkTimes(), 0.0)
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

    def _records(self, table: Any) -> list[Record]:
        layout = self._setup.layout
        if is_packed(table):
            return list(unpacked(table, [i.form.spec.name for i in layout.inputs]))
        rows = zip(*(list(cells_of(table.column(i.column))) for i in layout.inputs), strict=True)
        if not any(column.may_be_picture for column in layout.inputs):
            return [record_of(layout.inputs, row) for row in rows]
        return list(self._pool.map(lambda row: record_of(layout.inputs, row), rows))

    def _names(self, table: Any) -> list[Any]:
        """Names of the records, or their numbers where they have none."""
        name = self._predictor.id
        return list(range(table.num_rows)) if name is None else table.column(name).to_pylist()

    def _digest(self, table: Any, names: Sequence[Any]) -> str:
        """What tells a batch from others: the names of its records, or all that they hold."""
        found = hashlib.blake2b(digest_size=16)
        if self._predictor.id is not None:
            found.update(repr(names).encode())
            return found.hexdigest()
        for piece in table.to_batches():
            found.update(piece.serialize() if piece.num_columns else b"")
        return found.hexdigest()

    def _sent_begin(self, key: str, at_once: bool = False) -> Any:
        """Reference of the keeper's answer; None where it need not be asked yet."""
        device = self._worker.device
        if not self._waits and not self._note.write(device, key):
            self._note.close()
            self._waits = True
        return self._keeper.begin(device, device_name(self._worker), key, at_once or self._waits)

    def _may_begin(self, key: str, told: Any) -> bool:
        """Whether the batch is to be computed record by record; another device is taken if need be.

        A worker that was told to leave its device and has no other computes with NumPy. Raises
        JobError where the job is to end. ``told``: reference of the keeper's answer.
        """
        while True:
            found = self._keeper.answer(told)
            if found["failure"]:
                raise JobError(found["failure"])
            if found["retired"] is None:
                return bool(found["alone"])
            if found["wrong"]:  # as another worker found that shares it
                self._keeper.ask("suspect", self._worker.device, self._checks.unsure)
            self._move()
            told = self._sent_begin(key, at_once=True)

    def _computed(
        self, records: Sequence[Record], names: Sequence[Any], batch: str, alone: str
    ) -> _Cells:
        """Cells of the records. ``alone``: the batch's key where they are computed one by one."""
        cells: _Cells = []
        try:
            if not alone:
                for name, (record, found) in zip(names, self._worker.results(records), strict=True):
                    cells.append(self._cell(name, record, found, batch))
                return cells
            for name, record in zip(names, records, strict=True):
                key = f"{alone}:{len(cells)}"
                deaths = self._keeper.ask("begin_record", self._worker.device, key)
                if deaths >= MOST_DEATHS:
                    on = self._keeper.ask("deadly_devices", key)
                    cells.append(({}, died_row(deaths, self._exit.last, " and ".join(on))))
                    continue
                for _, found in self._worker.results([record]):
                    cells.append(self._cell(name, record, found, batch))
                self._keeper.send("end_record", key)
        except (DeviceLostError, DeviceTimeoutError) as error:
            self._exit.say(" ".join(f"{type(error).__name__}: {error}".split()))
            # Opened anew in vain. Ray restarts the actor, if need be elsewhere, and the keeper
            # counts; an error would end the job.
            os._exit(1)
        return cells

    def _cell(
        self, name: Any, record: Record, found: Any, batch: str
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Cells of a row and its error; a sample is sent to be computed with NumPy."""
        row = self._worker.row(self._setup.layout, record, found)
        if row[1] is None:
            self._checks.add(self._worker, name, record, found, batch)
        return row

    def _opened(self) -> Worker:
        """A worker on a device that may be used and computes right."""
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

    def _end(
        self, key: str, cells: _Cells, times: WorkTimes, waited: float, names: Sequence[Any] = ()
    ) -> None:
        """Note of a batch that is done."""
        errors, unsure = [error for _, error in cells], self._checks.unsure
        kinds = Counter(error["type"] for error in errors if error is not None)
        first = self._worker.first
        cold = None
        if self._begin is not None and first is not None:
            cold, self._begin = first - self._begin, None
        progress = BatchProgress(
            self._worker.device, len(cells) - kinds.total(), dict(kinds), times.busy, waited,
            last_error(errors, () if self._predictor.id is None else names), cold,
            self._checks.taken(), self._checks.largest, peak_memory(), self._actor,
            self._checks.pending, times.upload, times.download, times.memory,
            unsure[-1] if cells else "", unsure[0] if unsure else "",
        )  # fmt: skip
        self._metrics.count(progress)
        self._keeper.end(key, progress)


def finish_checks(_: object) -> None:
    """:meth:`BatchActor.finish`, for an actor of Ray's to be called with."""
    for actor in list(_here):
        actor.finish()
