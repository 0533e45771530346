"""Python's garbage collector, paused while a network is made ready.

Reading, rewriting and planning a network makes some hundred thousand objects, nearly all of which
stay: each time their number has grown by a few hundred the collector looks through all of them and
finds nothing. That took a seventh of a warm start.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from vknn import forks

_lock = forks.hold(threading.Lock())
_blocks = 0
_was_enabled = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No collections while the block runs, in any thread; as before after the last such block.

    Forks wait for it, too.
    """
    global _blocks, _was_enabled
    with _lock:
        if not _blocks:
            _was_enabled = gc.isenabled()
            gc.disable()
        _blocks += 1
    try:
        with forks.busy():
            yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks and _was_enabled:
                gc.enable()
