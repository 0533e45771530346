"""Forks of the process: a child has one thread only, and must not find locks that others held.

A fork waits until no other thread is reading a model, opening a device or compiling: then neither
vknn's locks nor those of Python's imports and of the Vulkan loader are held. It waits for what the
devices were given to do as well: a driver's own threads hold its locks while they work (llvmpipe's
compile a shader when it first runs). Runs leave locks of vknn behind that the child makes anew.
SwiftShader cannot be used in a child where the parent had it open (runtime/quirks.py): an error.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 its hook for forks has to come before the one below
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

#: Most seconds that a fork waits for other threads; then it goes on, whatever they hold.
WAIT_SECONDS = 30.0

_gate = threading.Condition()  # its lock is held over a fork: nobody becomes busy meanwhile
_blocks = 0
_own = threading.local()
_locks: list[Any] = []
_held: list[Any] = []
_pauses: list[tuple[Callable[[float], None], Callable[[], None]]] = []
_owners: weakref.WeakSet[Any] = weakref.WeakSet()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """A block that forks of other threads wait for."""
    global _blocks
    with _gate:
        _blocks += 1
        _own.blocks = getattr(_own, "blocks", 0) + 1
    try:
        yield
    finally:
        with _gate:
            _blocks -= 1
            _own.blocks -= 1
            _gate.notify_all()


def hold(lock: Any) -> Any:
    """``lock``, a module's own, which forks take: those of upper modules are taken first."""
    _locks.append(lock)
    return lock


def renew(owner: Any) -> None:
    """Note of an object whose locks a forked child makes anew."""
    _owners.add(owner)


def pause(begin: Callable[[float], None], end: Callable[[], None]) -> None:
    """Note of a pause that forks need: ``begin(deadline)``, and its ``end``.

    The deadline is one of ``time.perf_counter``.

    It begins with all of :func:`hold`'s locks taken, and ends in the parent only.
    """
    _pauses.append((begin, end))


def _before() -> None:
    end = time.perf_counter() + WAIT_SECONDS
    _gate.acquire()
    _gate.wait_for(lambda: _blocks == getattr(_own, "blocks", 0), WAIT_SECONDS)
    _held.extend(
        lock
        for lock in reversed(_locks)
        if lock.acquire(timeout=max(0.0, end - time.perf_counter()))
    )
    for begin, _ in _pauses:
        begin(end)


def _after_in_parent() -> None:
    for _, end in _pauses:
        end()
    while _held:
        _held.pop().release()
    _gate.release()


def _after_in_child() -> None:
    global _blocks
    _blocks = getattr(_own, "blocks", 0)
    _held.clear()
    for lock in [_gate, *_locks, *(v for owner in _owners for v in vars(owner).values())]:
        if hasattr(lock, "_at_fork_reinit"):  # what Python's own modules do with their locks
            lock._at_fork_reinit()


# Hooks that come later run earlier: what was imported above holds no lock while this one waits.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
