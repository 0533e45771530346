"""Lifetime of objects that must be closed, also where their owner forgot to close them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NoReturn, Protocol, TypeVar

from vknn.errors import VknnError

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

    def __copy__(self: _Self) -> _Self:
        raise VknnError(f"a {type(self).__name__} cannot be copied: its objects are the device's")

    def __deepcopy__(self: _Self, memo: object) -> _Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise VknnError(f"a {type(self).__name__} cannot be pickled: its objects are the device's")

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and _forgotten is not None:
            _forgotten.append(self)


class Closable(Protocol):
    """Whatever is closed."""

    def close(self) -> None:
        """Release of everything."""


def close_in_order(entries: Iterable[Closing]) -> None:
    """Closing of all, as of :func:`close_all`; last of those that others were made with."""
    ordered = sorted(entries, key=lambda entry: entry.close_order)
    close_all(ordered)


def close_all(entries: Iterable[Closable]) -> None:
    """Closing of all, also where that of one fails; the first error is raised at the end.

    What is no Exception (KeyboardInterrupt) is raised at once: who called it closes again.
    """
    failure: Exception | None = None
    for entry in entries:
        try:
            entry.close()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def sweep() -> None:
    """Closing of what was dropped without being closed."""
    while _forgotten:
        batch = [_forgotten.popleft() for _ in range(len(_forgotten))]
        try:
            close_in_order(batch)
        except KeyboardInterrupt:
            _forgotten.extend(batch)  # those that are closed already may be so twice
            raise
