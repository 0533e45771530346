"""Watch of the driver: who is told what it is at, so that a crash or a wait has a name.

Only a process that another one watches sets ``watcher`` (cli/watched.py): pipelines are then
compiled one a call, in place of a batch a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

#: The device where it is not known whose driver is at work.
ALL = "all drivers"
#: Told a device and what its driver does, before (True) and after; from several threads. None:
#: nobody is told.
watcher: Callable[[str, str, bool], None] | None = None


@contextlib.contextmanager
def at(device: str, work: str) -> Iterator[None]:
    """A call of a driver, or several, as watchers are told."""
    told = watcher
    if told is None:
        yield
        return
    told(device, work, True)
    try:
        yield
    finally:
        told(device, work, False)
