"""Signals of child processes."""

from __future__ import annotations

import signal


def heard() -> None:
    """Interrupts end a child process again (``preexec_fn``): a shell's background ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
