"""Streamed runs: the runs of a stream on the program that its inputs' shapes ask for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

import numpy as np

from vknn import forks
from vknn.graph import Arrays
from vknn.program import Program, ProgramStream
from vknn.run_limits import RunLimit, current, held


class StreamedPrograms:
    """Programs whose streams are open, once for each: they are not closed to make room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of its own: a stream ends beside another thread's run
        forks.renew(self)
        self._programs: list[Program] = []

    def add(self, program: Program) -> None:
        """Note of a stream; the caller has the lock of the session's runs."""
        with self._lock:
            self._programs.append(program)

    def remove(self, program: Program) -> None:
        """Loss of the note of one stream, which an interrupt may have made lose it before."""
        with self._lock, contextlib.suppress(ValueError):
            self._programs.remove(program)

    def __len__(self) -> int:
        return len(self._programs)

    def __contains__(self, program: object) -> bool:
        with self._lock:
            return program in self._programs


class Timed:
    """Block of a stream's work on one result, which may take so many seconds, within ``limit``.

    One object for all, one at a time: a stream has three of them for each result, and small
    networks take less than a generator's blocks would. Who ends the stream calls :meth:`undo`, for
    an interrupt in between leaves the thread's limit behind.
    """

    __slots__ = ("_before", "_limit", "_seconds")

    def __init__(self, limit: RunLimit, seconds: float | None) -> None:
        self._limit, self._seconds = limit, seconds
        self._before: RunLimit | None = None

    def __enter__(self) -> None:
        if self._seconds is not None:
            self._limit.start(self._seconds)
        self._limit.check()
        self._before, current.limit = current.limit, self._limit

    def __exit__(self, *_: object) -> None:
        current.limit = self._before

    def undo(self) -> None:
        """Removal of the limit, where the thread has it still."""
        if current.limit is self._limit:
            current.limit = self._before


class StreamedRuns:
    """Row of a stream's runs. Programs in use are noted in ``kept``; ``lock`` is that of runs.

    ``seconds``: how long each result may take, None: any time. ``limit``: the stream's own.
    ``in_flight``: how many may be under way at once.
    """

    def __init__(
        self,
        kept: StreamedPrograms,
        lock: threading.RLock,
        limit: RunLimit,
        seconds: float | None,
        in_flight: int,
    ) -> None:
        self._kept, self._lock, self.limit, self.in_flight = kept, lock, limit, in_flight
        self._timed = Timed(limit, seconds)
        self._runs: ProgramStream | None = None
        self._own: list[Program] = []
        #: The program of the runs begun last.
        self.program: Program | None = None

    @property
    def overlap(self) -> bool:
        """Whether runs are to be pushed and popped; if not, each is to be run by itself."""
        return self._runs is not None

    @property
    def full(self) -> bool:
        """Whether outputs must be taken before the next inputs are given."""
        return self._runs is not None and self._runs.full

    @property
    def pending(self) -> int:
        """Number of runs whose outputs were not taken yet."""
        return 0 if self._runs is None else self._runs.pending

    @property
    def usable(self) -> bool:
        """Whether runs can go on: nobody closed the program in use."""
        return self._runs is None or self._runs.is_open

    def hold(self, program: Program) -> None:
        """Hold of a program until a later one is in use; the caller has the lock."""
        if program not in self._own:
            self._kept.add(program)
            self._own.append(program)

    def change(self, program: Program) -> None:
        """Change to another program, at first for one run at a time; no run is pending."""
        if self._runs is not None:
            self._runs.close()
            self._runs = None
        self._release([p for p in self._own if p is not program])
        self.program = program

    def begin(self) -> None:
        """Begin of runs beside one another, where the program in use can have them."""
        assert self.program is not None
        self._runs = self.program.stream(self.in_flight)

    def push(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Start of a run; where it fails, those before it are still good."""
        assert self._runs is not None
        self._runs.push(arrays)

    def pop(self) -> Arrays:
        """Outputs of the oldest run; waits for it."""
        assert self._runs is not None
        return self._runs.pop()

    def timed(self) -> Timed:
        """Block whose time is that of one result."""
        return self._timed

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Block with the lock of the session's runs."""
        return held(self._lock)

    def give_up(self) -> None:
        """End without a wait: who makes the program's next stream, or closes it, waits instead."""
        if self._runs is not None:
            self._runs.give_up()
            self._runs = None

    def close(self) -> None:
        """Release of everything, after work that is still going on."""
        self._timed.undo()
        try:
            if self._runs is not None:
                self._runs.close()
        finally:
            self._runs = None
            self._release(list(self._own))

    def _release(self, programs: list[Program]) -> None:
        for program in programs:
            self._kept.remove(program)
            self._own.remove(program)
