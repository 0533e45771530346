"""Idle time: the seconds in which a worker had no batch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class IdleTime:
    """Account of the time in which none of a worker's threads had a batch.

    Two of them may have one at a time: then neither the time between two batches of one thread is
    idle, nor that in which one waits for the other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches, self._since = 0, time.perf_counter()

    @contextlib.contextmanager
    def batch(self) -> Iterator[float]:
        """Block of one batch; gives the seconds without any right before it, 0 beside another."""
        with self._lock:
            self._batches += 1
            idle = time.perf_counter() - self._since if self._batches == 1 else 0.0
        try:
            yield idle
        finally:
            with self._lock:
                self._batches -= 1
                self._since = time.perf_counter()
