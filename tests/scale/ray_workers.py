"""Workers of Ray Data without Ray: their processes are objects, which end at an exception."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vknn.scale import ray_batch, ray_worker
from vknn.scale.attempt_note import AttemptNote
from vknn.scale.keeper import Keeper
from vknn.scale.outcome import error_type
from vknn.scale.ray_worker import BatchActor, Setup
from vknn.scale.records import Record
from vknn.scale.report import WorkTimes

pa = pytest.importorskip("pyarrow")

#: Seconds after which a thread that waits for another one fails.
PATIENCE = 20.0


def answers_of(made: Any) -> list[tuple[Any, Any, str]]:
    """Output, error and batch of each row of a table that a worker gave."""
    return [(row["out"], row["error"], row["batch"]) for row in made.to_pylist()]


class ProcessEnded(BaseException):
    """The end of a worker's process."""


class RayProcess:
    """A worker's process: what its threads do when they read, compute, and make tables.

    Attributes:
        read, compute, answer: Called with the numbers of the records; may call :meth:`end`.
        ended: Whether it ended: no thread does anything more.
        computed: Numbers of the records of each run.
        messages: Keys of the batches that the keeper learns of, with "begin" and "end".
        progress: What was told of each that ended.
    """

    def __init__(self) -> None:
        self.read: Callable[[int], None] = lambda _: None
        self.compute: Callable[[list[int]], None] = lambda _: None
        self.answer: Callable[[list[int]], None] = lambda _: None
        self.ended = threading.Event()
        self.computed: list[list[int]] = []
        self.messages: list[tuple[str, str]] = []
        self.progress: list[Any] = []

    def end(self) -> None:
        """End of the process, at what this thread does."""
        self.ended.set()
        raise ProcessEnded

    def check(self) -> None:
        """End of the calling thread, where another one ended the process."""
        if self.ended.is_set():
            raise ProcessEnded


class Workplace:
    """Place of worker "w", whose processes come one after another.

    ``folder``: gives the folder of notes of a process.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Callable[[], Path]) -> None:
        self.process = RayProcess()
        runtime = SimpleNamespace(get_actor_id=lambda: "w")
        exits = SimpleNamespace(last="killed", close=lambda: None)
        made = {
            "ray_module": lambda *_: SimpleNamespace(get_runtime_context=lambda: runtime),
            "KeeperLink": lambda keeper: _LateLink(keeper, self.process),
            "Worker": lambda *_: _FakeWorker(self.process),
            "AttemptNote": lambda name: _Note(name, folder(), self.process),
            "ExitNote": lambda _: exits,
            "WorkerMetrics": lambda: SimpleNamespace(count=lambda _: None),
        }
        for name, value in made.items():
            monkeypatch.setattr(ray_worker, name, value)
        monkeypatch.setattr(ray_batch, "record_of", self._record)
        monkeypatch.setattr(BatchActor, "__del__", lambda self: None)  # nothing is tidied up

    def begun(self, keeper: Keeper) -> BatchActor:
        """A worker in a new process, as Ray begins it in the place of one that ended."""
        self.process = RayProcess()
        predictor = SimpleNamespace(id="id", device="numpy", stacked=1, checked=None)
        copy = SimpleNamespace(predictor=lambda given: given)
        setup = Setup(predictor, self._layout(), copy, ray_worker.OWN, keeper)  # type: ignore[arg-type]
        return BatchActor(setup)

    def _record(self, columns: Any, row: Any) -> Record:
        self.process.check()
        self.process.read(int(row[0]))
        return Record({"x": np.asarray(row[0])})

    def _layout(self) -> Any:
        process = self.process

        def table(source: Any, cells: Any, errors: Any, devices: Any, batch: str) -> Any:
            process.check()
            process.answer(source.column("x").to_pylist())
            made = {
                "out": pa.array([row.get("out") for row in cells], pa.int64()),
                "error": pa.array(errors, error_type()),
                "batch": pa.array([batch] * len(cells), pa.string()),
            }
            return pa.table(made)

        form = SimpleNamespace(spec=SimpleNamespace(name="x"))
        column = SimpleNamespace(column="x", form=form, may_be_picture=False)
        return SimpleNamespace(inputs=[column], table=table)


class _LateLink:
    """Link to a keeper whose messages about batches never leave before the process ends."""

    def __init__(self, keeper: Keeper, process: RayProcess) -> None:
        self._keeper, self._process = keeper, process

    def begin(self, device: str, name: str, key: str, at_once: bool) -> Any:
        self._process.check()
        self._process.messages.append(("begin", key))
        return self._keeper.begin(device, name, key) if at_once else None

    def end(self, key: str, progress: Any) -> None:
        self._process.check()
        self._process.messages.append(("end", key))
        self._process.progress.append(progress)
        self._keeper.end(key, progress)

    def ask(self, method: str, *arguments: Any) -> Any:
        self._process.check()
        return getattr(self._keeper, method)(*arguments)

    send = ask

    def answer(self, told: Any) -> Any:
        return told

    def close(self) -> None:
        pass


class _Note(AttemptNote):
    def __init__(self, worker: str, folder: Path, process: RayProcess) -> None:
        super().__init__(worker, folder)
        self._process = process

    def begin(self, key: str) -> bool:
        self._process.check()
        return super().begin(key)

    def end(self, key: str) -> None:
        self._process.check()
        super().end(key)


class _FakeWorker:
    """A worker whose outputs are twice the inputs."""

    def __init__(self, process: RayProcess) -> None:
        self.device, self.first, self._process = "uuid:1", None, process
        self.session = SimpleNamespace(device=SimpleNamespace(name="Card"))

    def results(self, records: Sequence[Record]) -> Iterator[tuple[Record, Any]]:
        self._process.check()
        numbers = [int(record.feeds["x"]) for record in records]
        self._process.computed.append(numbers)
        self._process.compute(numbers)
        yield from ((record, record.feeds["x"] * 2) for record in records)

    def row(self, layout: Any, record: Record, found: Any) -> Any:
        return {"out": int(found)}, None

    def times(self) -> WorkTimes:
        return WorkTimes()

    def close(self) -> None:
        pass
