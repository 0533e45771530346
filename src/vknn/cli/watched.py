"""Watched work: what calls drivers, in a forked process that these may crash or never leave."""

from __future__ import annotations

import argparse
import base64
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from vknn.cli.complaints import error_text
from vknn.errors import DeviceError, VknnError
from vknn.forked_work import Ended, Forked, signal_name, tell
from vknn.printable import one_line
from vknn.runtime import driver_watch
from vknn.runtime.vulkan import instance

#: Characters that are told of what a driver is at: a pipe takes a note of 4 KB at once.
_LONGEST = 500


class DriverFault(DeviceError):
    """A driver that crashed or gave no answer. ``how``: which of these."""

    def __init__(self, device: str, work: str, how: str) -> None:
        self.how = how
        remedy = "update it, or choose another device"
        if device == driver_watch.ALL:
            remedy = "`vknn devices` tries each apart"
        super().__init__(f"{device}: {work}: {how}; {remedy}")


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
    """Result of ``work``, as JSON has it; a forked process does it, whose errors are raised here.

    ``seconds``: that one call of a driver may take. ``variables``: of the process's environment.
    Where processes cannot be forked, or drivers are in use already, this one does the work.
    Raises DriverFault where a driver ends the process, or does not end a call.
    """
    # On macOS the frameworks below Vulkan do not work in a forked process.
    if not hasattr(os, "fork") or sys.platform == "darwin" or (not variables and instance.in_use()):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    calls = _Calls(seconds)
    forked = Forked(lambda _: _answer(work), variables or {})
    try:
        answer = forked.ask("", None, calls.noted)
    finally:
        forked.close()
    if isinstance(answer, Ended):
        raise calls.fault(answer.code)
    if "error" in answer:
        raise pickle.loads(base64.b64decode(answer["error"]))
    return answer["result"]


def _answer(work: Callable[[], Any]) -> dict[str, Any]:
    """The answer of the forked process."""
    driver_watch.watcher = _told
    try:
        return {"result": work()}
    except Exception as error:
        return {"error": _pickled(error)}


def _told(device: str, work: str, begins: bool) -> None:
    tell([one_line(device)[:_LONGEST], one_line(work)[:_LONGEST], begins])


def _pickled(error: Exception) -> str:
    try:
        raw = pickle.dumps(error)
        pickle.loads(raw)
    except Exception:
        raw = pickle.dumps(VknnError(f"{type(error).__name__}: {error_text(error)}"))
    return base64.b64encode(raw).decode("ascii")


class _Calls:
    """The calls of drivers that the process is in, of which each has so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        #: The device, what is done, and when that began, in that order.
        self._begun: list[tuple[str, str, float]] = []
        self._last = driver_watch.ALL, "starting"

    def noted(self, note: Any) -> float | None:
        """A call that begins or ends; the seconds that are left of the oldest one's."""
        device, work, begins = note
        if begins:
            self._begun.append((device, work, time.monotonic()))
        else:
            self._last = device, work
            places = [n for n, call in enumerate(self._begun) if call[:2] == (device, work)]
            del self._begun[places[-1]]
        return self._begun[0][2] + self._seconds - time.monotonic() if self._begun else None

    def fault(self, code: int | None) -> DriverFault:
        """The error for a process that ended with ``code`` (None: that was too slow)."""
        if code is None:
            device, work, _ = self._begun[0]
            how = f"the driver gave no answer within {self._seconds:g} s"
            return DriverFault(device, work, how)
        how = f"the driver {'crashed' if code < 0 else 'ended the process'} ({signal_name(code)})"
        if not self._begun:
            device, work = self._last
            return DriverFault(device, f"after {work}", how)
        # Of calls within each other the last says most; beside each other are those of threads.
        device = self._begun[-1][0]
        works = dict.fromkeys(work for on, work, _ in self._begun if on == device)
        return DriverFault(device, " or ".join(works), how)
