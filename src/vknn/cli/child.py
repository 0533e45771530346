"""Children: processes that do a command's work, so that what ends them leaves a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from vknn.cli.stopping import Stopping
from vknn.cli.watched import Calls, note_of
from vknn.forked_work import end_with_parent
from vknn.runtime import driver_watch
from vknn.runtime.precompile import COMPILE_SECONDS
from vknn.runtime.vulkan import instance

#: Signals by which users end a process, not drivers.
STOPS = {signal.SIGINT, signal.SIGTERM}
#: Seconds between looks at a child whose own children keep its pipe open, and for interrupts.
_LOOK = 0.2
#: si_code of a signal that a process sent (SI_USER).
_BY_A_PROCESS = 0


def can_fork() -> bool:
    """Whether a child can do the work: on Linux, where no driver is in use, in the thread that
    signals come to."""
    main = threading.current_thread() is threading.main_thread()
    able = hasattr(os, "fork") and sys.platform == "linux" and main
    return able and not instance.in_use()


class Parent:
    """The parent of a child that works in its place. A context manager, as signals are the child's
    meanwhile: Ctrl-C it gets by itself, unless this process leads, SIGTERM from this process.

    ``child``: its number, 0 without one and in it. ``times_told``: how often it was told to end;
    the second time ends the child at once. ``interrupt``: what answered Ctrl-C before. ``calls``:
    those of drivers that the child is in.

    ``seconds``: that one call of a driver may take. ``leads``: whether a terminal's signals come to
    this process alone, which passes each on: so it does what is sent to it by its number.
    """

    def __init__(self, seconds: float, leads: bool = False) -> None:
        self.child, self.times_told = 0, 0
        self._seconds, self._seen, self._leads = seconds, Stopping(), leads

    def __enter__(self) -> Parent:
        self.interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._leads and self.interrupt != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._pass_on)
        if self._leads:
            self._pause_before = signal.signal(signal.SIGTSTP, self._pause)
        self._terminate = signal.signal(signal.SIGTERM, self._tell)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self.interrupt)
        signal.signal(signal.SIGTERM, self._terminate)
        if self._leads:
            signal.signal(signal.SIGTSTP, self._pause_before)

    def fork(self) -> int:
        """The number of a new child; 0 in the child, which ends with this process."""
        self.calls = Calls(self._seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        self._notes, there = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            end_with_parent()
            if self._leads:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTSTP, self._pause_before)
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it writes to the terminal
            os.close(self._notes)
            driver_watch.watcher = _Noted(there)
            return 0
        os.close(there)
        if self.times_told:  # before the child was known here
            os.kill(self.child, signal.SIGTERM)
        return self.child

    def wait(self) -> int | None:
        """The exit code of the child when it has ended, below 0 a signal; None where a call of a
        driver did not end in time: the child is gone then."""
        try:
            return self._follow(self._notes)
        finally:
            os.close(self._notes)

    def _follow(self, notes: int) -> int | None:
        data, end = b"", None
        while True:
            if self.interrupts():
                os.kill(self.child, signal.SIGINT)
            left = _LOOK if end is None else min(_LOOK, max(0.0, end - time.perf_counter()))
            if not select.select([notes], [], [], left)[0]:
                if end is not None and time.perf_counter() >= end:
                    os.kill(self.child, signal.SIGKILL)
                    self._reap()
                    return None
                ended, status = os.waitpid(self.child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                continue
            more = os.read(notes, 1 << 16)
            if not more:
                return self._reap()
            *lines, data = (data + more).split(b"\n")
            for line in lines:
                seconds = self.calls.noted(json.loads(line))
                end = None if seconds is None else time.perf_counter() + seconds

    def _reap(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def interrupts(self) -> bool:
        """Whether a process sent SIGINT to this one alone, which has it blocked; a terminal sends
        it to all."""
        found = False
        if not hasattr(signal, "sigtimedwait"):  # macOS, where nobody has it blocked
            return found
        while (signal_ := signal.sigtimedwait({signal.SIGINT}, 0)) is not None:
            found |= signal_.si_code == _BY_A_PROCESS
        return found

    def _pass_on(self, number: int, _: FrameType | None = None) -> None:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def _pause(self, _: int, __: FrameType | None = None) -> None:
        """Ctrl-Z: both stop, until both go on."""
        self._pass_on(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._pass_on(signal.SIGCONT)

    def _tell(self, number: int, _: FrameType | None = None) -> None:
        self.times_told += self._seen.is_new(number)
        if self.child:
            with contextlib.suppress(ProcessLookupError):  # it may be in a driver, and deaf
                os.kill(self.child, signal.SIGTERM if self.times_told == 1 else signal.SIGKILL)


def apart(seconds: float = COMPILE_SECONDS) -> int | None:
    """Exit code of a child that does the rest of the work; None in that child.

    ``seconds``: that one call of a driver may take. Raises DriverFault where a driver ends the
    child, or does not end a call.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    parent = Parent(seconds)
    try:
        with parent:
            return None if parent.fork() == 0 else _ended(parent)
    finally:
        if parent.child:
            parent.interrupts()  # those that the child has had, too
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ended(parent: Parent) -> int:
    """Exit code of the child that does the work; raises DriverFault where a driver ended it."""
    code = parent.wait()
    if parent.times_told and (code is None or code < 0):
        return 128 + signal.SIGTERM
    if code is None or (code < 0 and -code not in STOPS):
        raise parent.calls.fault(code)
    return code if code >= 0 else 128 - code


class _Noted:
    """Watcher of drivers that writes notes to a pipe; nothing in processes that are forked."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._process = pipe, os.getpid()

    def __call__(self, device: str, work: str, begins: bool) -> None:
        if os.getpid() == self._process:
            note: list[Any] = note_of(device, work, begins)
            os.write(self._pipe, json.dumps(note).encode() + b"\n")
