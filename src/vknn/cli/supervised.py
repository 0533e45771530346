"""Supervision: work in a child process, begun again where a driver ended the child."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from vknn.errors import VknnError
from vknn.scale.folder import Folder

#: Signals by which users end a process, not drivers.
_STOPS = {signal.SIGINT, signal.SIGTERM}
#: prctl: the signal that a process gets when its parent ends (Linux).
_PDEATHSIG = 1


def supervised(output: str, work: Callable[[], int]) -> int:
    """Exit code of ``work``, which a child process does; where a signal ends that, another goes on.

    The job in the folder ``output`` notes what is being computed: without such a note nothing was
    gained, and the work is given up. Where processes cannot be forked this one does the work.
    """
    if not hasattr(os, "fork"):
        return work()
    while True:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _be_child(work)
        status = _waited(child)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        if number in _STOPS:
            return 128 + number
        _note(output, number)


class _NoPandas:
    """Finder of modules that finds no pandas.

    pyarrow imports it for its first array, where it is installed: a quarter of the start of a
    process that has no use for it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not imported here", name=name)


def _be_child(work: Callable[[], int]) -> None:
    """The work in the child, which ends with its exit code."""
    from vknn.cli.main import guarded

    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    sys.meta_path.insert(0, _NoPandas())
    code = guarded(work)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _waited(child: int) -> int:
    """The child's status; Ctrl-C is the child's to answer, which gets it as well."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return os.waitpid(child, 0)[1]
    finally:
        signal.signal(signal.SIGINT, before)


def _note(output: str, number: int) -> None:
    """Note of how the child ended. Raises VknnError where it was computing nothing."""
    name = _name(number)
    folder = Folder(output)
    running = folder.running()
    if not running.get("now"):
        raise VknnError(f"the process was ended by {name} before it computed anything")
    folder.write_running({**running, "exit": name})
    print(f"vknn: the process was ended by {name}; another goes on", file=sys.stderr, flush=True)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
