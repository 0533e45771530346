"""Lifetime of objects that must be closed, also where their owner forgot to close them."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

_Self = TypeVar("_Self", bound="Closing")
_forgotten: deque[Closing] = deque()


class Closing:
    """Context manager of an object that must be closed.

    An object that is dropped while open is not closed there and then: the garbage collector may
    run in the midst of anything, under any lock. It is put aside, and :func:`sweep` closes it.
    """

    #: Who is closed first among many: the lower.
    close_order = 0
    _closed = True  # until the constructor is through

    def close(self) -> None:
        """Release of everything; may be called twice."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and _forgotten is not None:
            _forgotten.append(self)


def sweep() -> None:
    """Closing of what was dropped without being closed."""
    while _forgotten:
        batch = [_forgotten.popleft() for _ in range(len(_forgotten))]
        for entry in sorted(batch, key=lambda e: e.close_order):
            entry.close()
