"""Worker of Ray Data: the class whose actors compute batches, one on each device."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vknn import __version__
from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError, VknnError
from vknn.runtime import devices
from vknn.scale.accelerators import assigned_device
from vknn.scale.checking import Checker, is_sampled
from vknn.scale.keeper import BatchProgress
from vknn.scale.killed import MOST_DEATHS
from vknn.scale.layout import JobLayout
from vknn.scale.model_files import ModelCopy
from vknn.scale.optional import ray_module
from vknn.scale.options import Predictor
from vknn.scale.outcome import JobError, error_row, peak_memory
from vknn.scale.packed import is_packed, unpacked
from vknn.scale.records import Record, cells_of, record_of
from vknn.scale.worker import Worker, device_name

#: How a worker finds its device: of Ray's GPUs, by a lease, or as the predictor says.
GPU, LEASE, OWN = "gpu", "lease", "own"
_NUMPY = "numpy"
#: Checks that may be under way at once.
_MOST_CHECKS = 4
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
        example: Inputs of the first record and its outputs by NumPy; None where none is checked.
        version: Version of vknn that the job was begun with.
    """

    predictor: Predictor
    layout: JobLayout
    copy: ModelCopy
    mode: str
    keeper: Any
    expected: Callable[[dict[str, Any]], Any] | None = None
    example: tuple[dict[str, Any], dict[str, Any]] | None = None
    version: str = __version__


class _WrongDeviceError(VknnError):
    """The device computed something that NumPy does not agree with."""


class BatchActor:
    """Callable that computes Arrow tables of records, for ``Dataset.map_batches``."""

    def __init__(self, setup: Setup) -> None:
        if setup.version != __version__:
            raise VknnError(
                f"machine {platform.node()} has vknn {__version__}, and the job is of vknn "
                f"{setup.version}: install the same everywhere"
            )
        self._setup, self._ray = setup, ray_module()
        self._begin: float | None = time.monotonic()
        self._predictor = setup.copy.predictor(setup.predictor)
        self._checker = Checker(self._predictor)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "vknn-decode")
        self._checks: deque[tuple[Any, Record, Any, str]] = deque()
        self._unsure: list[str] = []
        self._done_checks, self._largest = 0, 0.0
        self._number, self._ended = 0, time.monotonic()
        self._name = f"{os.getpid():x}-{time.time_ns() & 0xFFFFFFFF:08x}"
        self._worker = self._opened()

    def __call__(self, table: Any) -> Any:
        """The answers of a table of records."""
        waited = time.monotonic() - self._ended
        names = self._names(table)
        key = hashlib.sha256(repr(names).encode()).hexdigest()
        self._number += 1
        batch = f"{self._name}-{self._number}"
        records = self._records(table)
        while True:
            alone, busy = self._may_begin(key), self._worker.busy
            try:
                cells = self._computed(records, names, batch, alone)
                self._collect(_MOST_CHECKS)
                break
            except _WrongDeviceError as error:
                self._move(str(error))
        device = self._worker.device
        made = self._setup.layout.table(
            table, [row for row, _ in cells], [e for _, e in cells], [device] * len(cells), batch
        )
        self._unsure.append(batch)
        self._end(key, cells, self._worker.busy - busy, waited)
        self._ended = time.monotonic()
        return made

    def __del__(self) -> None:
        """Wait for the checks that are under way; Ray Data calls this when a pool ends."""
        with contextlib.suppress(Exception):
            self._collect(0)
            self._end("", [], 0.0, 0.0)
        with contextlib.suppress(Exception):
            self._worker.close()

    def _records(self, table: Any) -> list[Record]:
        layout = self._setup.layout
        if is_packed(table):
            return list(unpacked(table, [i.form.spec.name for i in layout.inputs]))
        rows = zip(*(list(cells_of(table.column(i.column))) for i in layout.inputs), strict=True)
        return list(self._pool.map(lambda row: record_of(layout.inputs, row), rows))

    def _names(self, table: Any) -> list[Any]:
        """Names of the records, or their numbers where they have none."""
        name = self._predictor.id
        return list(range(table.num_rows)) if name is None else table.column(name).to_pylist()

    def _may_begin(self, key: str) -> bool:
        """Whether the batch is to be computed record by record; another device is taken if need be.

        A worker that was told to leave its device and has no other computes with NumPy.
        """
        while True:
            told = self._ask("begin", self._worker.device, device_name(self._worker), key)
            if told["retired"] is None:
                return bool(told["alone"])
            self._move(told["retired"])

    def _computed(
        self, records: Sequence[Record], names: Sequence[Any], batch: str, alone: bool
    ) -> _Cells:
        cells: _Cells = []
        try:
            if not alone:
                for name, (record, found) in zip(names, self._worker.results(records), strict=True):
                    cells.append(self._cell(name, record, found, batch))
                return cells
            for name, record in zip(names, records, strict=True):
                key = repr(name)
                deaths = self._ask("begin_record", self._worker.device, key)
                if deaths >= MOST_DEATHS:
                    cells.append(({}, self._died(deaths)))
                    continue
                for _, found in self._worker.results([record]):
                    cells.append(self._cell(name, record, found, batch))
                self._ask("end_record", key)
        except (DeviceLostError, DeviceTimeoutError):
            # Opened anew in vain. Ray restarts the actor, if need be elsewhere, and the keeper
            # counts; an error would end the job.
            os._exit(1)
        return cells

    def _cell(
        self, name: Any, record: Record, found: Any, batch: str
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Cells of a row and its error; a sample is sent to be computed with NumPy."""
        if not isinstance(found, Exception):
            try:
                cells = self._worker.cells(self._setup.layout, record, found)
            except (VknnError, MemoryError) as error:
                found = error
            else:
                self._sample(name, record, found, batch)
                return cells, None
        return {}, error_row(found, record.attempts + 1)

    def _died(self, deaths: int) -> dict[str, Any]:
        return {
            "type": "ProcessDied",
            "message": f"the process that computed it ended {deaths} times, the last "
            f"beside {self._worker.device} ({device_name(self._worker)})",
            "attempts": deaths,
        }

    def _sample(self, name: Any, record: Record, outputs: Any, batch: str) -> None:
        expected = self._setup.expected
        if expected is None or self._worker.session.device is None:
            return
        if is_sampled(name, self._predictor.checked):
            self._checks.append((expected(dict(record.feeds)), record, outputs, batch))

    def _collect(self, most: int) -> None:
        """Comparison of the samples that NumPy has computed, until at most so many are left.

        Raises _WrongDeviceError.
        """
        while self._checks:
            reference = self._checks[0][0]
            if len(self._checks) <= most and not self._ray.wait([reference], timeout=0)[0]:
                return
            _, record, outputs, batch = self._checks.popleft()
            self._compare(record.feeds, outputs, self._ray.get(reference))
            if batch in self._unsure:
                del self._unsure[: self._unsure.index(batch) + 1]

    def _compare(self, feeds: Any, outputs: Any, expected: Any) -> None:
        check = self._checker.check(self._worker.session, feeds, outputs, expected)
        self._done_checks += 1
        self._largest = max(self._largest, check.error)
        if not check.ok:
            reason = f"it disagrees with NumPy: {check.text}"
            self._ask("retire", self._worker.device, reason, self._unsure)
            raise _WrongDeviceError(reason)

    def _opened(self) -> Worker:
        """A worker on a device that may be used and computes right."""
        while True:
            worker = Worker(self._predictor, self._device())
            self._worker = worker
            self._ask("meet", worker.device, device_name(worker))
            if self._setup.example is None or worker.session.device is None:
                return worker
            feeds, expected = self._setup.example
            try:
                self._compare(feeds, worker.answer(feeds), expected)
                return worker
            except _WrongDeviceError:
                worker.close()
            except (DeviceLostError, DeviceTimeoutError) as error:
                self._ask("retire", worker.device, f"its first record: {error}", [])
                worker.close()

    def _move(self, reason: str) -> None:
        """Change to another device; what was not compared yet was computed by the old one."""
        self._checks.clear()
        self._unsure.clear()
        self._worker.close()
        self._worker = self._opened()

    def _device(self) -> str:
        """The selector of the device to use: NumPy where those of this machine must not be used."""
        retired = set(self._ask("retired"))
        if self._setup.mode == LEASE:
            return self._leased(retired)
        if self._setup.mode == OWN:
            own = self._predictor.device
            return _NUMPY if retired else own
        ids = self._ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        try:
            chosen = assigned_device(ids, devices())
        except DeviceError as error:
            raise DeviceError(f"machine {platform.node()}: {error}") from None
        from vknn.runtime.device_selection import choose

        names = choose(devices(), chosen).lasting_names
        return _NUMPY if retired & {chosen, *names} else chosen

    def _leased(self, retired: set[str]) -> str:
        node = self._ray.get_runtime_context().get_node_id()
        lease = self._ask("lease", node)
        try:
            return str(self._ray.get(lease.take.remote(os.getpid(), sorted(retired))))
        except DeviceError as error:
            if retired:
                return _NUMPY
            raise DeviceError(f"machine {platform.node()}: {error}") from None

    def _end(self, key: str, cells: _Cells, busy: float, waited: float) -> None:
        """Note of a batch that is done. Raises JobError where the job is to end."""
        errors = [error for _, error in cells if error is not None]
        first = self._worker.first
        cold = None
        if self._begin is not None and first is not None:
            cold, self._begin = first - self._begin, None
        failure = self._ask(
            "end",
            key,
            BatchProgress(
                self._worker.device,
                len(cells) - len(errors),
                dict(Counter(error["type"] for error in errors)),
                busy,
                waited,
                (errors[-1]["type"], errors[-1]["message"]) if errors else None,
                cold,
                self._done_checks,
                self._largest,
                peak_memory(),
            ),
        )
        self._done_checks = 0
        if failure:
            raise JobError(failure)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """What the keeper says."""
        return self._ray.get(getattr(self._setup.keeper, method).remote(*arguments))
