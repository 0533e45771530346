"""Forked work: a process that has imported everything, and forks another for what may crash.

A new process takes a second or more to import vknn, a forked one milliseconds. Only the forked one
opens a device.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

#: prctl: the signal that a process gets when its parent ends (Linux).
_PDEATHSIG = 1

Work = Callable[[str], dict[str, Any]]
#: What is done with a note of the work; gives the seconds that the work has from now on.
Noted = Callable[[Any], float | None]

#: Of a forked process: the pipe to the one that it was forked from.
_pipe: int | None = None


def tell(note: Any) -> None:
    """Note of the work to the process that asked for it (``Forked.ask``); nothing in any other.

    Notes of several threads do not mix while one is below the 4 KB that a pipe takes at once.
    """
    if _pipe is not None:
        os.write(_pipe, json.dumps([note]).encode() + b"\n")


def end_with_parent() -> None:
    """End of this process when its parent ends, from now on, where the system can (Linux)."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def signal_name(code: int) -> str:
    """A signal's name for an exit code below 0, "exit code N" for others."""
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


@dataclass(frozen=True)
class Ended:
    """End of the forked process. ``code``: as of subprocess, below 0 a signal; None: too slow."""

    code: int | None


class Forked:
    """A forked process that does ``work(text)`` again and again and answers with JSON.

    ``variables``: of its environment, besides those of this process.
    """

    def __init__(self, work: Work, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        here, there = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(here[1])
            os.close(there[0])
            self._be(work, os.fdopen(here[0], "r"), os.fdopen(there[1], "w"))
        os.close(here[0])
        os.close(there[1])
        self._requests, self._answers = os.fdopen(here[1], "w"), there[0]

    def ask(
        self, text: str, timeout: float | None, noted: Noted | None = None
    ) -> dict[str, Any] | Ended:
        """The answer; Ended where there is none within ``timeout`` seconds: it is gone then.

        ``noted``: is called with what the work tells meanwhile by :func:`tell`. None of seconds: as
        long as it takes.
        """
        try:
            print(json.dumps(text), file=self._requests, flush=True)
        except OSError:
            return Ended(self.close())
        end, data = _after(timeout), b""
        while True:
            line, found, rest = data.partition(b"\n")
            if found:
                said, data = json.loads(line), rest
                if not isinstance(said, list):
                    return dict(said)
                end = end if noted is None else _after(noted(said[0]))
                continue
            left = None if end is None else max(0.0, end - time.perf_counter())
            ready, _, _ = select.select([self._answers], [], [], left)
            if not ready:
                self.close()
                return Ended(None)
            more = os.read(self._answers, 1 << 16)
            if not more:
                return Ended(self.close(wait=True))
            data += more

    def close(self, wait: bool = False) -> int:
        """End of the process, at once or (``wait``) when it has ended by itself; its exit code."""
        if self._pid == 0:
            return 0
        if not wait:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        self._pid = 0
        with contextlib.suppress(OSError):
            self._requests.close()
        os.close(self._answers)
        return os.waitstatus_to_exitcode(status)

    def _be(self, work: Work, requests: IO[str], answers: IO[str]) -> None:
        """The loop of the forked process, which ends with it."""
        global _pipe
        end_with_parent()
        code = 1
        _pipe = answers.fileno()
        try:
            os.environ.update(self.variables)
            for line in requests:
                print(json.dumps(work(json.loads(line))), file=answers, flush=True)
            code = 0
        finally:
            os._exit(code)


def _after(seconds: float | None) -> float | None:
    return None if seconds is None else time.perf_counter() + seconds
