"""Live objects: a count of the native objects that are alive, by kind."""

from __future__ import annotations

import threading
from collections import Counter

from vknn import forks

_counts: Counter[str] = Counter()
_lock = forks.hold(threading.RLock())


def created(kind: str, count: int = 1) -> None:
    """Count of native objects that came into being."""
    with _lock:
        _counts[kind] += count


def destroyed(kind: str, count: int = 1) -> None:
    """Count of native objects that were destroyed."""
    with _lock:
        _counts[kind] -= count


def live_objects() -> dict[str, int]:
    """Native objects alive in this process, by kind; empty when everything was released."""
    with _lock:
        return {kind: count for kind, count in sorted(_counts.items()) if count}
