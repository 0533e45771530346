"""Limits of a run: a deadline, and cancellation by another thread, seen wherever a run spends time.

A run says so in ``current.limit``, its thread's own; what takes long looks there: the reference
between nodes, programs between the rounds of loops, waits for the device several times a second.
"""

from __future__ import annotations

import threading
import time

from vknn.errors import RunCancelledError, RunTimeoutError, VknnError


class RunLimit:
    """End of the runs of an engine, before they are done; one object for one run after another.

    Attributes:
        deadline: The time by ``time.monotonic`` at which the present run has to be done, or None.
        seconds: What it was given.
        cancelled: Whether somebody wants it to end at once.
    """

    __slots__ = ("cancelled", "deadline", "seconds")

    def __init__(self) -> None:
        self.deadline: float | None = None
        self.seconds = 0.0
        self.cancelled = False

    def start(self, seconds: float) -> None:
        """Start of a run that may take so many seconds from now on."""
        self.seconds, self.deadline = seconds, time.monotonic() + seconds

    def check(self) -> None:
        """Check that the run may go on; raises RunCancelledError or RunTimeoutError."""
        if self.cancelled:
            raise RunCancelledError("the run was cancelled")
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise RunTimeoutError(
                f"the run was not done within {self.seconds:g} s; give it a longer timeout, or "
                "raise VKNN_TIMEOUT (seconds)"
            )


class _Current(threading.local):
    """Of the thread's present run, None outside of one."""

    limit: RunLimit | None = None


current = _Current()


def check() -> None:
    """Check that the thread's run may go on; raises RunCancelledError or RunTimeoutError."""
    limit = current.limit
    if limit is not None:
        limit.check()


def checked_seconds(given: float) -> float:
    """A timeout that a user gave, in seconds; raises VknnError for one that is none."""
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1.0
    if isinstance(given, bool) or not 0.0 < seconds < 1e9:
        raise VknnError(f"timeout={given!r}: expected a number of seconds above 0")
    return seconds
