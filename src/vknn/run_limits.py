"""Limits of a run: a deadline, cancellation by another thread, and memory.

A run says so in ``current.limit``, its thread's own. What takes long looks there: the reference
between nodes and between the blocks in which operators compute, programs between the rounds of
loops, waits for the device and for long calls of NumPy (:func:`waited`) several times a second.
Whoever makes arrays of a size that a file or data state asks for room first (:func:`make_room`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from vknn import interrupts
from vknn.errors import OutOfMemoryError, RunCancelledError, RunTimeoutError, VknnError
from vknn.host_memory import allowed_host_memory

_Result = TypeVar("_Result")
#: Seconds after which a wait for a lock or a thread looks at the limit again.
_LOCK_SLICE = 0.05
#: Bytes up to which nobody asks what is free, which takes longer than to allocate them.
_FEW_BYTES = 1 << 20
#: What helps a network that takes too much memory.
MORE_MEMORY = "use smaller inputs, or raise memory_limit (VKNN_MEMORY_LIMIT)"


class RunLimit:
    """End of the runs of an engine, before they are done; one object for one run after another.

    Attributes:
        deadline: When the present run has to be done, by ``time.perf_counter``, or None.
        seconds: What it was given.
        what: What has to be done by then, for the error's text.
        cancelled: Whether somebody wants it to end at once.
        threads: Whether other threads may compute for it.
        memory: Bytes that it may take, or None: a share of what is free.
    """

    __slots__ = ("cancelled", "deadline", "memory", "seconds", "threads", "what")

    def __init__(
        self, what: str = "the run", threads: bool = True, memory: int | None = None
    ) -> None:
        self.what, self.threads, self.memory = what, threads, memory
        self.deadline: float | None = None
        self.seconds = 0.0
        self.cancelled = False

    def start(self, seconds: float) -> None:
        """Start of a run that may take so many seconds from now on."""
        self.seconds, self.deadline = seconds, time.perf_counter() + seconds

    def check(self) -> None:
        """Check that the run may go on; raises RunCancelledError or RunTimeoutError."""
        if self.cancelled:
            raise RunCancelledError("the run was cancelled")
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            raise RunTimeoutError(
                f"{self.what} was not done within {self.seconds:g} s; give it a longer timeout, or "
                "raise VKNN_TIMEOUT (seconds)"
            )


class _Current(threading.local):
    """Of the thread's present run, None outside of one."""

    limit: RunLimit | None = None


current = _Current()


@contextlib.contextmanager
def within(limit: RunLimit) -> Iterator[None]:
    """Block of a run, in which the thread's limit is this one; not while it is over already."""
    before, current.limit = current.limit, limit
    try:
        limit.check()
        yield
    finally:
        current.limit = before


def acquire(lock: Any, limit: RunLimit | None = None) -> None:
    """Acquisition of a lock, in a block that puts interrupts off; as of :func:`held`."""
    limit = limit or current.limit
    while not lock.acquire(timeout=_LOCK_SLICE):
        interrupts.point()
        if limit is not None:
            limit.check()


@contextlib.contextmanager
def held(lock: Any, limit: RunLimit | None = None) -> Iterator[None]:
    """Block with a lock that another run may hold; the wait for it counts as the run's time.

    ``limit``: by default the thread's.
    """
    taken = False
    try:
        with interrupts.put_off():
            acquire(lock, limit)
            taken = True
        yield
    finally:
        if taken:
            lock.release()


def check() -> None:
    """Check that the thread's run may go on; raises RunCancelledError or RunTimeoutError."""
    limit = current.limit
    if limit is not None:
        limit.check()


def make_room(nbytes: int, what: str) -> None:
    """Check that the host may allocate so many bytes at once; raises OutOfMemoryError.

    ``what``: who needs them and for what, as the beginning of the error's text.
    """
    limit = current.limit.memory if current.limit is not None else None
    if limit is None and nbytes <= _FEW_BYTES:
        return
    most = allowed_host_memory(limit)
    if most is not None and nbytes > most:
        raise OutOfMemoryError(
            f"{what}: {nbytes} bytes are needed at once, more than the limit of {most}; "
            f"{MORE_MEMORY}"
        )


class Growth:
    """Bytes that become more step by step: room is asked for whenever they have doubled.

    ``first``: bytes up to which none is asked for.
    """

    __slots__ = ("_checked", "_nbytes")

    def __init__(self, first: int = _FEW_BYTES) -> None:
        self._nbytes, self._checked = 0, first

    def add(self, nbytes: int, what: Callable[[], str]) -> None:
        """So many more; raises OutOfMemoryError, as :func:`make_room`, of what ``what`` says."""
        self._nbytes += nbytes
        if self._nbytes > self._checked:
            make_room(self._nbytes, what())
            self._checked *= 2


def waited(compute: Callable[[], _Result]) -> _Result:
    """The result of what takes long, in a thread of its own while this one looks at the limit.

    NumPy sees neither limits nor Ctrl-C within a call. Where the run ends early, the thread goes on
    to the end of that call, or to its next look at a limit, and what it made is dropped.
    """
    limit = current.limit
    if limit is None or not limit.threads:
        return compute()
    call = _Call(compute, limit)
    try:
        try:
            threading.Thread(target=call.run, name="vknn host step", daemon=True).start()
        except RuntimeError:  # the process ends, or may have no more threads
            return compute()
        while not call.done.wait(_LOCK_SLICE):
            limit.check()
    except BaseException:
        call.limit.cancelled = True
        raise
    return call.result()


class _Call:
    """A call in another thread. Its limit ends it with the run that waits for it, and before."""

    def __init__(self, compute: Callable[[], Any], limit: RunLimit) -> None:
        self._compute = compute
        self.limit = RunLimit(limit.what, threads=False, memory=limit.memory)
        self.done = threading.Event()
        self.limit.deadline, self.limit.seconds = limit.deadline, limit.seconds
        self._found: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work of the thread: the call, and word that it is done."""
        current.limit = self.limit
        try:
            self._found = self._compute()
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()

    def result(self) -> Any:
        """Result of the call; raises what it raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # else it would hold the frame that holds it
        return self._found


def checked_seconds(given: float) -> float:
    """A timeout that a user gave, in seconds; raises VknnError for one that is none."""
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1.0
    if isinstance(given, bool) or not 0.0 < seconds < 1e9:
        raise VknnError(f"timeout={given!r}: expected a number of seconds above 0")
    return seconds
