"""Watched work: what calls drivers, in a forked process that these may crash or never leave."""

from __future__ import annotations

import argparse
import base64
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from vknn.cli.complaints import error_text
from vknn.errors import DeviceError, VknnError
from vknn.forked_work import Ended, Forked, signal_name, tell
from vknn.printable import one_line
from vknn.runtime import driver_watch, refusals
from vknn.runtime.vulkan import instance

#: Most pipelines at which a driver may crash or hang before it is given up.
MOST_FAULTS = 16
#: Characters that are told of what a driver is at: a pipe takes a note of 4 KB at once.
_LONGEST = 500
#: The last call, where there was none.
_NONE = driver_watch.ALL, "starting"


class DriverFault(DeviceError):
    """A driver that crashed or gave no answer. ``how``: which of these. ``works``: what it was at,
    several where it may have been any of them. ``story``: all of it, without what to do."""

    def __init__(self, device: str, works: Sequence[str], how: str) -> None:
        self.how, self.works = how, tuple(works)
        remedy = "update it, or choose another device"
        if device == driver_watch.ALL:
            remedy = "`vknn devices` tries each apart"
        self.story = f"{device}: {' or '.join(works)}: {how}"
        super().__init__(f"{self.story}; {remedy}")


def add_time_limit(parser: argparse._ActionsContainer, seconds: float, what: str) -> None:
    parser.add_argument(
        "--time-limit",
        type=float,
        default=None,
        metavar="SECONDS",
        help=f"take a driver to hang that {what} for so long ({seconds:g})",
    )


def time_limit(args: argparse.Namespace, default: float) -> float:
    """Seconds of the option; raises VknnError for what are none."""
    seconds: float = default if args.time_limit is None else args.time_limit
    if not 0 < seconds < math.inf:
        raise VknnError("--time-limit takes a number of seconds above 0")
    return seconds


def watched(
    work: Callable[[], Any], seconds: float, variables: Mapping[str, str] | None = None
) -> Any:
    """Result of ``work``, which can be pickled; a forked process does it, whose errors are raised.

    ``seconds``: that one call of a driver may take. ``variables``: of the process's environment.
    Where processes cannot be forked, or drivers are in use already, this one does the work.
    Raises DriverFault where a driver ends the process, or does not end a call.
    """
    # On macOS the frameworks below Vulkan do not work in a forked process.
    if not hasattr(os, "fork") or sys.platform == "darwin" or (not variables and instance.in_use()):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    calls = Calls(seconds)
    forked = Forked(lambda _: _answer(work), variables or {})
    try:
        answer = forked.ask("", None, calls.noted)
    finally:
        forked.close()
    if isinstance(answer, Ended):
        raise calls.fault(answer.code)
    raised, result = pickle.loads(base64.b64decode(answer["pickled"]))
    if raised:
        raise result
    return result


def watched_on(work: Callable[[], Any], seconds: float) -> tuple[Any, list[DriverFault]]:
    """Result of :func:`watched` work, and faults at pipelines that it goes on without.

    Raises the first DriverFault where that is at something else, or the rest has no end either.
    """
    faults: list[DriverFault] = []
    first = None
    alone = False
    while True:
        refused = {fault.works[0]: fault.how for fault in faults}
        try:
            return watched(partial(_without, work, refused, alone), seconds), faults
        except DriverFault as fault:
            first = first or fault
            several = len(fault.works) > 1 and not alone
            known = refused.keys() & set(fault.works)
            if known or not (several or _at_pipeline(fault)) or len(faults) == MOST_FAULTS:
                raise first from None
            alone = True
            faults += [] if several else [fault]


def _at_pipeline(fault: DriverFault) -> bool:
    return len(fault.works) == 1 and fault.works[0].startswith(("compiling ", "reading "))


def _without(work: Callable[[], Any], refused: Mapping[str, str], alone: bool) -> Any:
    """Result of the work in a process in which some pipelines are not made."""
    if refused or alone:
        refusals.refused.update(refused)
        refusals.one_at_a_time = alone
    return work()


def _answer(work: Callable[[], Any]) -> dict[str, Any]:
    """The answer of the forked process."""
    driver_watch.watcher = _told
    try:
        return {"pickled": _pickled((False, work()))}
    except Exception as error:
        try:
            return {"pickled": _pickled((True, error))}
        except Exception:  # an error of somebody's own
            text = f"{type(error).__name__}: {error_text(error)}"
            return {"pickled": _pickled((True, VknnError(text)))}


def _told(device: str, work: str, begins: bool) -> None:
    tell(note_of(device, work, begins))


def note_of(device: str, work: str, begins: bool) -> list[Any]:
    """A call of a driver that begins or ends as a note for :class:`Calls`."""
    call = one_line(device)[:_LONGEST], one_line(work)[:_LONGEST]
    return [threading.get_ident(), *call, begins]


def _pickled(answer: tuple[bool, Any]) -> str:
    raw = pickle.dumps(answer)
    pickle.loads(raw)  # errors that take other arguments than they keep are not read again
    return base64.b64encode(raw).decode("ascii")


class Calls:
    """The calls of drivers that the process is in, of which each has so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        #: The thread, the device, what is done, and when that began, in that order.
        self._begun: list[tuple[int, str, str, float]] = []
        self._last = _NONE

    def noted(self, note: Any) -> float | None:
        """A call that begins or ends; the seconds that are left of the oldest one's."""
        thread, device, work, begins = note
        if begins:
            self._begun.append((thread, device, work, time.perf_counter()))
        else:
            self._last = device, work
            places = [n for n, call in enumerate(self._begun) if call[0] == thread]
            del self._begun[places[-1]]
        return self._begun[0][3] + self._seconds - time.perf_counter() if self._begun else None

    @property
    def device(self) -> str | None:
        """The device of the last call; None before there was one."""
        return self._last[0] if self._last != _NONE else None

    @property
    def inside(self) -> bool:
        """Whether a call has begun that has not ended."""
        return bool(self._begun)

    def no_answer(self) -> str:
        """Words for a driver that did not end a call in time."""
        return f"the driver gave no answer within {self._seconds:g} s"

    def fault(self, code: int | None) -> DriverFault:
        """The error for a process that ended with ``code`` (None: that was too slow)."""
        # Of calls within each other the innermost says most; threads have calls beside each other.
        inner = {thread: (device, work) for thread, device, work, _ in self._begun}
        if code is None:
            device, work = inner[self._begun[0][0]]
            return DriverFault(device, [work], self.no_answer())
        inside = "the driver" if inner else "most likely its driver"
        how = f"{inside} {'crashed' if code < 0 else 'ended the process'} ({signal_name(code)})"
        if code == -signal.SIGKILL:
            how = "the process was killed (SIGKILL), as systems do that are out of memory"
        if not inner:
            device, work = self._last
            return DriverFault(device, [f"after {work}"], how)
        device = next(iter(inner.values()))[0]
        return DriverFault(device, list(dict.fromkeys(w for _, w in inner.values())), how)
