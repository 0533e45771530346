"""Trace of a part of a program (``vknn.profiling.trace``): all runs of all sessions within it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vknn.engine import Engine, Watch
from vknn.errors import VknnError
from vknn.named_files import replacing
from vknn.profiling.records import TimedRun
from vknn.profiling.trace_events import Event, Tracks, name_event, run_events
from vknn.program import Program
from vknn.runtime import DeviceArray

#: The most events that are kept; runs beyond them are counted.
MAX_EVENTS = 2_000_000
#: Tracks of a session: its queue, its operators on the host, and from here on the threads.
_QUEUE, _OPS, _THREADS = 1, 2, 10

_switching = threading.Lock()


@dataclass(eq=False)
class Trace:
    """A trace that is being recorded, or was. Any thread may add to it.

    Attributes:
        runs: Number of runs that it has.
        left_out: Number of runs that found no room in it.
    """

    runs: int = 0
    left_out: int = 0
    _began: float = field(default_factory=time.perf_counter, repr=False)
    _names: list[Event] = field(default_factory=list, repr=False)
    _events: list[Event] = field(default_factory=list, repr=False)
    #: Engines are held, so that no other gets the number of one that is gone.
    _sessions: dict[Engine, int] = field(default_factory=dict, repr=False)
    _threads: dict[tuple[int, threading.Thread], int] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def to_trace(self) -> dict[str, Any]:
        """The runs so far in Chrome's trace format (ui.perfetto.dev reads it)."""
        with self._lock:
            events = [*self._names, *self._events]
        more = {"runs": self.runs, "left_out": self.left_out}
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": more}

    def save(self, path: str | os.PathLike[str]) -> None:
        """The trace written to a file as JSON."""
        with replacing(path) as file:
            file.write(json.dumps(self.to_trace()).encode())

    def _run(
        self, engine: Engine, program: Program, arrays: dict[str, Any], kept: Collection[str]
    ) -> dict[str, Any]:
        """A run in place of ``program.run``, with timestamps where they change nothing else."""
        run = TimedRun()
        on_device = bool(kept) or any(isinstance(a, DeviceArray) for a in arrays.values())
        timed = not on_device and _has_timestamps(engine) and program.is_plain
        name = "run" if timed else "run (on the device)" if on_device else "run (not timed inside)"
        try:
            return program.run(arrays, run.execute if timed else None, kept)
        except BaseException:
            name = f"{name}, which failed"
            raise
        finally:
            run.seconds = time.perf_counter() - run.began
            self._add(engine, run, name)

    def _add(self, engine: Engine, run: TimedRun, name: str) -> None:
        with self._lock:
            count = 1 + sum(len(s.entries) + 8 for s in run.segments)
            if len(self._events) + count > MAX_EVENTS:
                self.left_out += 1
                return
            self.runs += 1
            session = self._session(engine)
            steps = (session, self._thread(session))
            tracks = Tracks((session, _QUEUE), steps, (session, _OPS))
            self._events += run_events(run, tracks, name, run.began - self._began)

    def _session(self, engine: Engine) -> int:
        """Number of a session, whose tracks are named when it is met."""
        if engine not in self._sessions:
            number = self._sessions[engine] = len(self._sessions) + 1
            device = engine.target.device
            where = device.name if device is not None else "NumPy"
            model = os.path.basename(engine.model.file or "model")
            self._names += [
                name_event("process_name", number, _QUEUE, f"{model} on {where} ({number})"),
                name_event("thread_name", number, _QUEUE, "queue"),
                name_event("thread_name", number, _OPS, "operators (NumPy)"),
            ]
        return self._sessions[engine]

    def _thread(self, session: int) -> int:
        """Number of the thread among those of a session; two may have one name."""
        thread = threading.current_thread()
        if (session, thread) not in self._threads:
            number = _THREADS + sum(s == session for s, _ in self._threads)
            self._threads[session, thread] = number
            self._names.append(name_event("thread_name", session, number, thread.name))
        return self._threads[session, thread]


@contextmanager
def trace(path: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Block whose runs, of all sessions in all threads, are recorded with their dispatches.

    Runs go submit by submit and so are a little slower; streams that are opened within do not
    overlap their runs, and streams that were open before are not recorded while they overlap.
    Inputs and outputs that stay on the device stay there: such runs are recorded as a whole.
    Outside of the block runs cost what they cost without it.

    Args:
        path: The file to write at the end of the block, errors in it included, in Chrome's trace
            format: ui.perfetto.dev and chrome://tracing read it. A process for each session, in
            it a track for its queue, and one for each thread. None: no file, see
            ``Trace.to_trace``.

    Raises:
        vknn.VknnError: Another trace is being recorded.
    """
    recorded = Trace()
    with _switching:
        if Watch.run is not None:
            raise VknnError("another trace is being recorded: end it first")
        Watch.run = recorded._run
    try:
        yield recorded
    finally:
        with _switching:
            Watch.run = None
        if path is not None:
            recorded.save(path)


def _has_timestamps(engine: Engine) -> bool:
    device = engine.target.device
    return device is None or "timestamps" in device.limits.features
