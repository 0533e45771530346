"""Stopping of a command by its user or a scheduler: in order at first, then at once."""

from __future__ import annotations

import os
import signal
import time

#: Seconds within which SIGTERM is the same once more: `timeout` and schedulers send it to a process
#: and to its group.
_SAME_SECONDS = 1.0


class Stopping:
    """Answer to Ctrl-C and SIGTERM: KeyboardInterrupt; to a further one the end of the process.

    Attributes:
        number: The signal that came first; 0: none did.
    """

    def __init__(self) -> None:
        self.number, self._when = 0, 0.0

    def __call__(self, number: int, _: object = None) -> None:
        if self.is_new(number):
            if self.number:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            else:
                self.number = number
                raise KeyboardInterrupt

    def is_new(self, number: int) -> bool:
        """Whether a signal that comes now is not the last one once more."""
        now, before = time.perf_counter(), self._when
        self._when = now
        return number != signal.SIGTERM or not before or now > before + _SAME_SECONDS

    def install(self, interrupt: object = signal.default_int_handler) -> None:
        """This as the answer; ``interrupt``: the one to Ctrl-C before, which may be none."""
        if interrupt != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self)
        signal.signal(signal.SIGTERM, self)
