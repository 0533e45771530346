"""Ctrl-C, put off while native objects are made, used and released.

Python raises KeyboardInterrupt between any two of its instructions: also between the one that makes
a native object and the one that notes it. Blocks of :func:`put_off` are not interrupted; what came
meanwhile is raised at their end, or at a :func:`point` within, where whoever waits can give up.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

try:  # those of ``signal`` look for enumerations first, which takes longer than all the rest
    from _signal import getsignal  # type: ignore[import-not-found]
    from _signal import signal as set_handler
except ImportError:
    from signal import getsignal
    from signal import signal as set_handler

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SIGINT = int(signal.SIGINT)
_came = False
_main = threading.main_thread().ident


def _note(number: int, frame: object) -> None:
    """Handler of SIGINT within the blocks."""
    global _came
    _came = True


class put_off:
    """A block without KeyboardInterrupt.

    Blocks within others do nothing, nor do those of other threads, which Python never interrupts,
    nor where the application has a handler of its own: that one is told at once.
    """

    __slots__ = ("_own",)

    def __enter__(self) -> None:
        global _came
        self._own = False
        if threading.get_ident() == _main and getsignal(_SIGINT) is signal.default_int_handler:
            _came = False
            set_handler(_SIGINT, _note)
            self._own = True

    def __exit__(self, *_: object) -> None:
        if self._own:
            set_handler(_SIGINT, signal.default_int_handler)
            if _came:
                point()


def uninterrupted(function: _Function) -> _Function:
    """The function, whose whole is such a block."""

    @functools.wraps(function)
    def whole(*args: Any, **more: Any) -> Any:
        with put_off():
            return function(*args, **more)

    return whole  # type: ignore[return-value]


def point() -> None:
    """Place in a block where it can be interrupted: KeyboardInterrupt, if Ctrl-C came."""
    global _came
    if _came and threading.get_ident() == _main:
        _came = False
        raise KeyboardInterrupt


def _in_child() -> None:
    """End of a block of another thread, which the forked child does not have."""
    global _main
    _main = threading.get_ident()
    if getsignal(_SIGINT) is _note:
        set_handler(_SIGINT, signal.default_int_handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
