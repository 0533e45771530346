"""Supervision: work in a child process, begun again where a driver ended the child."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from vknn.cli.complaints import STOPPED
from vknn.cli.stopping import Stopping, stoppable
from vknn.errors import VknnError
from vknn.scale.folder import Folder

#: Signals by which users end a process, not drivers.
_STOPS = {signal.SIGINT, signal.SIGTERM}
#: prctl: the signal that a process gets when its parent ends (Linux).
_PDEATHSIG = 1


def supervised(output: str, work: Callable[[bool], int]) -> int:
    """Exit code of ``work``, which a child process does; where a signal ends that, another goes on.

    ``work`` is told whether it is another's. The job in the folder ``output`` notes what is being
    computed: without such a note nothing was gained, and the work is given up. Where processes
    cannot be forked this one does the work.
    """
    if not hasattr(os, "fork"):
        return stoppable(partial(work, False))
    child, is_told, goes_on = 0, 0, False
    seen = Stopping()

    def tell(number: int, _: object = None) -> None:
        nonlocal is_told
        is_told += seen.is_new(number)
        if child:
            with contextlib.suppress(ProcessLookupError):  # it may be in a driver, and deaf
                os.kill(child, signal.SIGTERM if is_told == 1 else signal.SIGKILL)

    # Ctrl-C is the child's to answer, which gets it too; SIGTERM it gets of this process.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminated = signal.signal(signal.SIGTERM, tell)
    try:
        while not is_told:
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                Stopping().install(before)
                _be_child(partial(work, goes_on))
            if is_told:  # before the child was known here
                os.kill(child, signal.SIGTERM)
            status = os.waitpid(child, 0)[1]
            if os.WIFEXITED(status):
                code = os.WEXITSTATUS(status)
                return 128 + signal.SIGTERM if is_told and code == STOPPED else code
            number = os.WTERMSIG(status)
            if is_told:
                return 128 + signal.SIGTERM
            if number in _STOPS:
                return 128 + number
            _note(output, number)
            goes_on = True
        return 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminated)


def _be_child(work: Callable[[], int]) -> None:
    """The work in the child, which ends with its exit code."""
    from vknn.cli.main import guarded

    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    code = guarded(work)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _note(output: str, number: int) -> None:
    """Note of how the child ended. Raises VknnError where nothing says what it was computing."""
    name = _name(number)
    folder = Folder(output)
    running = folder.running()
    if not running.get("now") or "exit" in running:  # which is there until something is begun
        raise VknnError(
            f"the process was ended by {name} before it computed anything, or at a record without "
            "an id: then --id names a column, and the job goes on behind such records"
        )
    folder.write_running({**running, "exit": name})
    print(f"vknn: the process was ended by {name}; another goes on", file=sys.stderr, flush=True)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
