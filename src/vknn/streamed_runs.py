"""Streamed runs: the runs of a stream on the program that its inputs' shapes ask for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import numpy as np

from vknn.graph import Arrays
from vknn.program import Program, ProgramStream


class StreamedRuns:
    """Row of a stream's runs. Programs in use are kept in ``held``, under ``lock``."""

    def __init__(self, held: list[Program], lock: threading.RLock) -> None:
        self._held, self._lock = held, lock
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

    def hold(self, program: Program) -> None:
        """Hold of a program until a later one is in use; the lock is the caller's."""
        if program not in self._own:
            self._own.append(program)
            self._held.append(program)

    def change(self, program: Program, overlap: bool) -> None:
        """Change to another program; no run is pending. ``overlap``: whether runs may."""
        if self._runs is not None:
            self._runs.close()
            self._runs = None
        self._release([p for p in self._own if p is not program])
        self.program = program
        self._runs = program.stream() if overlap else None

    def push(self, arrays: Mapping[str, np.ndarray]) -> Exception | None:
        """Start of a run, or the error that these inputs gave."""
        assert self._runs is not None
        try:
            self._runs.push(arrays)
        except Exception as error:
            return error
        return None

    def pop(self) -> Arrays:
        """Outputs of the oldest run; waits for it."""
        assert self._runs is not None
        return self._runs.pop()

    def drain(self) -> Iterator[Arrays]:
        """Outputs of all runs that are pending."""
        while self._runs is not None and self._runs.pending:
            yield self._runs.pop()

    def close(self) -> None:
        """Release of everything, after work that is still going on."""
        try:
            if self._runs is not None:
                self._runs.close()
        finally:
            self._runs = None
            self._release(list(self._own))

    def _release(self, programs: list[Program]) -> None:
        with self._lock:
            for program in programs:
                self._own.remove(program)
                self._held.remove(program)
