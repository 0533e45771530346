"""Supervision: work in a child process, begun again where a driver ended the child."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from vknn.cli.child import STOPS, Parent, can_fork
from vknn.cli.complaints import STOPPED
from vknn.cli.stopping import Stopping
from vknn.cli.watched import Calls
from vknn.errors import VknnError
from vknn.forked_work import signal_name
from vknn.runtime.precompile import COMPILE_SECONDS
from vknn.scale.folder import Folder
from vknn.scale.outcome import JobError

_AGAIN = "give the command again, which takes the job up where it was"
#: Ray's native part ends a process so, whatever Python would.
_ENDED = (
    "the process of the job was ended from within: by Ray, where its own processes on this machine "
    f"or the head of its cluster are gone, or by a driver; {_AGAIN}"
)


def supervised(output: str, work: Callable[[int], int], seconds: float = COMPILE_SECONDS) -> int:
    """Exit code of ``work``, which a child process does; where a driver ends that, another goes on.

    ``work`` is told how many processes ended before. The job in the folder ``output`` notes what is
    being computed: without such a note nothing was gained, and the work is given up.
    ``seconds``: that one call of a driver may take. Where processes cannot be forked this one does
    the work.
    """
    if not hasattr(os, "fork"):
        return stoppable(partial(work, 0))
    ended = 0
    with Parent(seconds, leads=True) as parent:
        while not parent.times_told:
            code = _child_code(parent, partial(work, ended))
            if code is not None and code >= 0:
                return 128 + signal.SIGTERM if parent.times_told and code == STOPPED else code
            if parent.times_told:
                break
            if code is not None and -code in STOPS:
                return 128 - code
            _note(output, parent.calls, code)
            ended += 1
        return 128 + signal.SIGTERM


def attended(work: Callable[[], int], seconds: float = COMPILE_SECONDS) -> int:
    """Exit code of ``work`` with Ray, which a child process does where that can be.

    Ray ends a process without a word where its own, or the cluster's head, are gone. Raises
    JobError then, and where a signal ended the child; DriverFault where that came from a driver.
    ``seconds``: that one call of a driver may take.
    """
    if not can_fork() or "ray" in sys.modules:
        return stoppable(work)
    with Parent(seconds, leads=True) as parent:
        code = _child_code(parent, work)
    if parent.times_told:
        return 128 + signal.SIGTERM if code is None or code < 0 or code == STOPPED else code
    if code is not None and (code >= 0 or -code in STOPS):
        return code if code >= 0 else 128 - code
    if parent.calls.inside or code is None:
        raise parent.calls.fault(code)
    raise JobError(f"the process of the job was ended by {signal_name(code)}: {_AGAIN}")


def _child_code(parent: Parent, work: Callable[[], int]) -> int | None:
    """Exit code of a child that does some work, below 0 a signal; None where a driver hung.

    Raises JobError where it ended before its work did, and nobody told it to.
    """
    ended, there = os.pipe()
    try:
        if parent.fork() == 0:
            Stopping().install(parent.interrupt)
            _be_child(work, there)
    finally:
        os.close(there)
    with os.fdopen(ended, "rb", 0) as pipe:
        code = parent.wait()
        os.set_blocking(ended, False)  # a child of the child may hold the other end
        is_exit = code is not None and code >= 0
        if is_exit and not parent.times_told and not pipe.read(1):
            raise JobError(_ENDED)
    return code


def stoppable(work: Callable[[], int]) -> int:
    """Exit code of some work in this process, which a signal stops."""
    from vknn.cli.main import guarded

    stopping = Stopping()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    stopping.install(before[0])
    try:
        code = guarded(work)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    return 128 + stopping.number if code == STOPPED and stopping.number else code


def _be_child(work: Callable[[], int], ended: int) -> None:
    """The work in the child, which tells at a pipe that it ended, and ends with its exit code.

    Without exit functions, which ``main.end`` runs: those that are there are of the process that
    was forked, which is a command's, or a program's that calls ``main([...])``, and they are that
    process's to run, once.
    """
    from vknn.cli.main import guarded

    code = guarded(work)
    os.write(ended, b".")
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _note(output: str, calls: Calls, code: int | None) -> None:
    """Note of how the child ended. Raises VknnError where nothing says what it was computing."""
    how = calls.no_answer() if code is None else signal_name(code)
    folder = Folder(output)
    running = folder.running()
    if running.get("now") and "exit" not in running:  # which is there until something is begun
        folder.write_running({**running, "exit": how})
        told = calls.fault(code).story if calls.inside else f"the process was ended by {how}"
        print(f"vknn: {told}; another goes on", file=sys.stderr, flush=True)
    elif calls.inside:
        raise calls.fault(code)
    else:
        device = "" if calls.device is None else f"{calls.device}: "
        raise VknnError(
            f"{device}the process was ended by {how} before it computed anything, or at a record "
            "without an id: then --id names a column, and the job goes on behind such records"
        )
