"""Child processes with a time limit each: what crashes or hangs is one line, and the rest goes on.

Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

PASSED, FAILED, CRASHED = "passed", "failed", "crashed"
TIMED_OUT, SKIPPED, LEFT_OUT = "timed out", "skipped", "left out"
#: Exit code of a child that cannot do its work on this machine; its last line says why.
SKIP = 77
#: Seconds within which a killed process must be gone; one that hangs in a driver may stay.
PATIENCE = 5.0
#: Bytes of a child's output that are read.
MOST = 64 << 20


@dataclass(frozen=True)
class Task:
    """A child process: arguments of Python, and its limit in seconds.

    ``bare``: without the kit's packages, those of the machine instead. ``text``: its standard
    output is kept as lines, not read as JSON.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    bare: bool = False
    text: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A task's end. ``note``: one line; ``answer``: what it printed."""

    name: str
    status: str
    seconds: float
    note: str = ""
    answer: Any = None


def do_all(
    tasks: Sequence[Task],
    environment: Mapping[str, str],
    deadline: float,
    jobs: int,
    folder: Path,
) -> list[Outcome]:
    """Outcomes in the order of the tasks, ``jobs`` at a time; none starts after the deadline."""
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(pool.map(lambda t: do(t, environment, deadline, folder), tasks))


def do(task: Task, environment: Mapping[str, str], deadline: float, folder: Path) -> Outcome:
    """A task's outcome; its limit is cut at ``deadline`` (of ``time.monotonic``)."""
    start = time.monotonic()
    seconds = min(task.seconds, deadline - start)
    if seconds < 1:
        return Outcome(task.name, LEFT_OUT, 0.0, "the time was up")
    variables = {**environment, **task.variables}
    if task.bare:
        variables.pop("PYTHONPATH", None)
    with (
        tempfile.TemporaryFile(dir=folder) as out,
        tempfile.TemporaryFile(dir=folder) as err,
    ):
        child = subprocess.Popen(
            [sys.executable, "-s", *task.command],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        code = _wait(child, seconds)
        took = time.monotonic() - start
        outcome = _outcome(task, code, took, _text(out), _text(err))
    if code is None and seconds < task.seconds:  # it may have done nothing wrong
        return replace(outcome, status=LEFT_OUT, note=f"the time was up after {took:.0f} s")
    return outcome


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code; None where the process and all that it started had to be killed."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
        return None


def _outcome(task: Task, code: int | None, seconds: float, out: str, err: str) -> Outcome:
    answer = out.splitlines() if task.text else _json(out)
    last = (err.strip() or (out.strip() if task.text else "")).splitlines()[-1:] or ["no message"]
    if code is None:
        status, note = TIMED_OUT, f"after {seconds:.0f} s"
    elif code == SKIP:
        status, note = SKIPPED, last[0]
    elif code < 0:
        status, note = CRASHED, f"{_signal(-code)}: {last[0]}"
    elif code or answer is None:
        status, note = FAILED, f"exit code {code}: {last[0]}"
    else:
        status, note = PASSED, ""
    return Outcome(task.name, status, seconds, note[:400], answer)


def _json(out: str) -> Any:
    """What a child printed, or the last line of it that is whole: children that do one thing after
    another print all they have after each."""
    for text in (out, *reversed(out.splitlines())):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read(MOST).decode(errors="replace"))
